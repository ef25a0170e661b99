//! The interface of built-in transformers.

use std::sync::Arc;

use crate::accumulator::ResAccumulator;
use crate::build::Build;
use crate::config::Config;
use crate::config_object::ConfigObject;
use crate::decode::{Fields, Result};

/// A built-in transformer.
pub(crate) struct Transformer {
    /// The kind of its configuration objects, and its name in annotations.
    pub kind: &'static str,
    /// Reads its fields of a kustomization. The transformations are applied one after the other.
    pub read_fields: fn(&mut Fields<'_>) -> Result<Vec<Transformation>>,
    /// Reads a configuration object, which a file in `transformers` holds.
    pub read_config: fn(&mut ConfigObject<'_>) -> Result<Transformation>,
}

/// A change of all objects of a kustomization.
pub(crate) type Transformation = Box<dyn Fn(&mut Pass<'_, '_>) -> Result<()>>;

/// A kustomization while it is transformed.
pub(crate) struct Pass<'p, 'b> {
    /// The rendering.
    pub build: &'p mut Build<'b>,
    /// The directory of the kustomization.
    pub dir: &'p str,
    /// The fields that transformers of a kustomization change.
    pub config: Arc<Config>,
    /// The objects.
    pub accumulator: &'p mut ResAccumulator,
}

/// Reads the fields of a transformer that a kustomization has no field for.
pub(super) fn no_fields(_: &mut Fields<'_>) -> Result<Vec<Transformation>> {
    Ok(Vec::new())
}
