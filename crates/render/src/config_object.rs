//! The objects that configure generators, transformers and validators.

use super::decode::{Fields, Located, Result};
use super::kustomization::FieldSpec;
use super::resource::{Origin, Resource};

/// The object that configures a generator or transformer.
pub(super) struct ConfigObject<'a> {
    pub object: &'a Resource,
    /// The object, with its location for errors.
    pub located: Located<'a>,
    /// The fields other than `apiVersion`, `kind` and `metadata`.
    pub fields: Fields<'a>,
}

impl<'a> ConfigObject<'a> {
    pub(super) fn new(object: &'a Resource) -> Result<Self> {
        let located = Located::root(&object.location.file, &object.node);
        let mut fields = located.fields()?;
        for common in ["apiVersion", "kind", "metadata"] {
            fields.take(common);
        }
        Ok(Self { object, located, fields })
    }

    /// Takes `fieldSpecs`.
    pub(super) fn field_specs(&mut self) -> Result<Vec<FieldSpec>> {
        self.fields.list("fieldSpecs", FieldSpec::read)
    }

    /// Returns the origin to record on generated and transformed objects.
    pub(super) fn origin(&self) -> Option<Origin> {
        let configured_in = self.object.origin.as_ref()?.path.clone();
        let object = self.object;
        let by = [object.api_version(), object.kind(), object.name(), object.namespace()];
        Some(Origin { path: String::new(), configured_in, configured_by: Some(by.map(str::to_owned)) })
    }
}
