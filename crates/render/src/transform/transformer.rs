//! The interface of the built-in transformers.

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
    /// Reads its fields from a kustomization. The transformations are applied in order.
    pub read_fields: fn(&mut Fields<'_>) -> Result<Vec<Transformation>>,
    /// Reads a configuration object from `transformers`.
    pub read_config: fn(&mut ConfigObject<'_>) -> Result<Transformation>,
}

/// A change to all objects of a kustomization.
pub(crate) type Transformation = Box<dyn Fn(&mut Pass<'_, '_>) -> Result<()>>;

/// A kustomization being transformed.
pub(crate) struct Pass<'p, 'b> {
    pub build: &'p mut Build<'b>,
    /// The directory of the kustomization.
    pub dir: &'p str,
    /// The fields that the transformers of this kustomization change.
    pub config: Arc<Config>,
    pub accumulator: &'p mut ResAccumulator,
}

/// Reads no fields, for a transformer without a field in kustomizations.
pub(super) fn no_fields(_: &mut Fields<'_>) -> Result<Vec<Transformation>> {
    Ok(Vec::new())
}
