//! The state of a kustomization while it is rendered.

use std::sync::Arc;

use super::config::Config;
use super::decode::Result;
use super::error::{Reason, RenderError};
use super::kustomization::Var;
use super::limits::MAX_OBJECTS;
use super::resmap::ResMap;
use super::resource::Origin;

/// The objects, field specifications and variables that a kustomization has accumulated.
#[derive(Clone, Debug, Default)]
pub(super) struct ResAccumulator {
    pub resmap: ResMap,
    pub config: Arc<Config>,
    pub vars: Vec<Var>,
}

impl ResAccumulator {
    /// Adds everything that another kustomization accumulated.
    ///
    /// # Errors
    /// Fails if an object or a variable exists in both, or if their field specifications conflict.
    pub(super) fn merge(&mut self, other: Self) -> Result<()> {
        self.resmap.append(other.resmap.into_vec())?;
        self.config = std::mem::take(&mut self.config).merge(&other.config)?;
        add_vars(&mut self.vars, &other.vars)
    }

    /// Ends a transformation: removes objects that became empty, and records `origin` on the others.
    ///
    /// # Errors
    /// Fails if there are more objects than the limit.
    pub(super) fn end_transformation(&mut self, origin: Option<Origin>) -> Result<()> {
        if let Some(origin) = origin {
            for resource in self.resmap.iter_mut() {
                match resource.origin {
                    Some(_) => resource.transformations.push(origin.clone()),
                    None => resource.origin = Some(origin.clone()),
                }
            }
        }
        self.resmap.retain(|resource| !resource.is_empty());
        if self.resmap.len() > MAX_OBJECTS {
            let message = format!("the overlay produces more than {MAX_OBJECTS} objects; split it");
            return Err(Box::new(RenderError::new(Reason::TooLarge, "", message)));
        }
        Ok(())
    }
}

/// Adds variables to the known ones.
///
/// # Errors
/// Fails if two variables have the same name.
pub(super) fn add_vars(known: &mut Vec<Var>, vars: &[Var]) -> Result<()> {
    for var in vars {
        if let Some(first) = known.iter().find(|known| known.name == var.name) {
            let error = RenderError::at(
                Reason::InvalidValue,
                &var.location,
                format!("the variable {:?} is declared twice", var.name),
            );
            return Err(Box::new(error.field(var.field.clone()).related(&first.location)));
        }
        known.push(var.clone());
    }
    Ok(())
}
