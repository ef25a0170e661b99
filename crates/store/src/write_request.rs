//! One write on its way through the store: what was asked, and the reading of its body.

use jiff::Timestamp;
use serde_json::Value;

use object::{Object, whole_numbers};

use super::request_scope::RequestScope;
use super::{ApiError, FieldError, FieldValidation, ResourcePath, WriteOptions, limits, prune};

/// What every step of one write needs to know: the request, and the scope it was found in.
pub(super) struct WriteRequest<'a> {
    pub(super) target: &'a ResourcePath,
    pub(super) scope: RequestScope,
    pub(super) options: &'a WriteOptions,
    pub(super) now: Timestamp,
    pub(super) warnings: Vec<String>,
    pub(super) reading: Reading,
}

/// Where the object that is read comes from; it decides how unknown fields are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// The body of a request.
    Body,
    /// What a patch made of an object.
    Patched,
    /// A configuration to apply, which names no field that the schema does not know.
    Apply,
}

impl WriteRequest<'_> {
    pub(super) fn gvk(&self) -> object::Gvk {
        object::Gvk::parse(&self.scope.api_version(), &self.scope.resource().kind)
    }

    /// Checks that a body belongs to the path, handles fields that the schema does not know, and fills in
    /// defaults.
    pub(super) fn read_body(&mut self, mut object: Object) -> Result<Object, ApiError> {
        let (kind, api_version) = (self.scope.resource().kind.clone(), self.scope.api_version());
        limits::check_depth(&object)?;
        object.0.values_mut().for_each(whole_numbers);
        self.check_kind(&mut object, &kind, &api_version)?;
        let (name, namespace) = (object.name(), object.namespace());
        if !self.target.name.is_empty() && !name.is_empty() && name != self.target.name {
            let why = format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                self.target.name
            );
            return Err(ApiError::bad_request(why));
        }
        if !namespace.is_empty() && namespace != self.target.namespace {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        if self.scope.resource().namespaced && self.target.namespace.is_empty() {
            return Err(ApiError::method_not_allowed());
        }
        if !self.target.name.is_empty() && name.is_empty() {
            object.metadata_mut().insert("name".into(), self.target.name.clone().into());
        }
        if !self.scope.resource().is_custom()
            && let Some(why) =
                prune::mistyped(&self.scope.version().schema, &Value::Object(object.0.clone()), &kind)
        {
            let version = &self.scope.version().name;
            return Err(ApiError::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
            )));
        }
        let unknown = prune::prune(&self.scope, &mut object);
        self.unknown_fields(&object, &unknown)?;
        Ok(object)
    }

    fn unknown_fields(&mut self, object: &Object, unknown: &[String]) -> Result<(), ApiError> {
        if unknown.is_empty() {
            return Ok(());
        }
        let (kind, version) = (object.kind(), &self.scope.version().name);
        if self.reading == Reading::Apply {
            let head = format!(
                "{}/{}; {}/{version}, Kind={kind}",
                object.namespace(),
                object.name(),
                self.target.group
            );
            let list: Vec<_> =
                unknown.iter().map(|path| format!(".{path}: field not declared in schema")).collect();
            return Err(ApiError::unexpected(format!(
                "failed to create typed patch object ({head}): {}",
                list.join("\n")
            )));
        }
        let fields: Vec<_> = unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
        let strict = format!("strict decoding error: {}", fields.join(", "));
        match (self.options.field_validation, self.reading) {
            (FieldValidation::Ignore, _) => {}
            (FieldValidation::Warn, _) => self.warnings.extend(fields),
            (FieldValidation::Strict, Reading::Patched) => {
                let error =
                    FieldError::invalid("patch", &Value::Object(object.0.clone()).to_string().into(), strict);
                return Err(ApiError::invalid("", "", "", &[error]));
            }
            (FieldValidation::Strict, _) => {
                return Err(ApiError::bad_request(format!(
                    "{kind} in version {version:?} cannot be handled as a {kind}: {strict}"
                )));
            }
        }
        Ok(())
    }

    fn check_kind(&self, object: &mut Object, kind: &str, api_version: &str) -> Result<(), ApiError> {
        if !self.scope.resource().is_custom() {
            for (field, value) in [("kind", kind), ("apiVersion", api_version)] {
                if object.0.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
                    object.0.insert(field.into(), value.into());
                }
            }
        }
        let (found_kind, found_version) = (object.kind(), object.api_version());
        if found_kind == kind && found_version == api_version {
            return Ok(());
        }
        if found_kind.is_empty() {
            return Err(ApiError::bad_request("Object 'Kind' is missing"));
        }
        let version = &self.scope.version().name;
        if found_version != api_version {
            let why = format!(
                "the API version in the data ({found_version}) does not match the expected API version ({api_version})"
            );
            return Err(ApiError::bad_request(why));
        }
        Err(ApiError::bad_request(format!(
            "{found_kind} in version {version:?} cannot be handled as a {kind}"
        )))
    }
}
