//! A write inside the store: the request, and the parsing of its body.

use jiff::Timestamp;
use serde_json::Value;

use object::{Object, whole_numbers};

use super::prune::{self, Reading};
use super::request_scope::RequestScope;
use super::{ApiError, FieldError, FieldValidation, ResourcePath, WriteOptions, limits};

/// The context of every step of a write: the request and its scope.
pub(super) struct WriteRequest<'a> {
    pub(super) target: &'a ResourcePath,
    pub(super) scope: RequestScope,
    pub(super) options: &'a WriteOptions,
    pub(super) now: Timestamp,
    pub(super) warnings: Vec<String>,
    pub(super) reading: Reading,
    /// True if the request creates an object although its verb is not create.
    pub(super) creates_instead: bool,
}

impl WriteRequest<'_> {
    pub(super) fn gvk(&self) -> object::Gvk {
        object::Gvk::parse(&self.scope.api_version(), &self.scope.resource().kind)
    }

    /// Checks that a body matches the path, handles unknown fields, and sets defaults.
    pub(super) fn read_body(&mut self, mut object: Object) -> Result<Object, ApiError> {
        let (kind, api_version) = (self.scope.resource().kind.clone(), self.scope.api_version());
        limits::check_depth(&object)?;
        object.0.values_mut().for_each(whole_numbers);
        self.check_kind(&mut object, &kind, &api_version)?;
        let (name, namespace) = (object.name(), object.namespace());
        // The fields of an apply are checked after the merge.
        if self.reading != Reading::Apply {
            self.check_name(name)?;
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
        if self.reading == Reading::Apply {
            let mistyped = prune::mistyped_in_config(&self.scope.version().schema, &object.0, "");
            if let Some(detail) = mistyped {
                return Err(self.unfit(&object, "create typed patch object", &detail));
            }
        }
        if let Some(detail) = self.mistyped(&object) {
            return Err(self.undecodable(&object, &detail));
        }
        let unknown = prune::prune(&self.scope, &mut object, self.reading);
        self.unknown_fields(&object, &unknown)?;
        Ok(object)
    }

    /// Rejects a body whose name differs from the path.
    pub(super) fn check_name(&self, name: &str) -> Result<(), ApiError> {
        let wanted = &self.target.name;
        if wanted.is_empty() || name.is_empty() || name == wanted {
            return Ok(());
        }
        Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({wanted})"
        )))
    }

    /// Returns where a body does not have the Go type that it is decoded into. Only built-in kinds and metadata
    /// have Go types.
    fn mistyped(&self, object: &Object) -> Option<String> {
        let (kind, schema) = (&self.scope.resource().kind, &self.scope.version().schema);
        let whole = Value::Object(object.0.clone());
        if !self.scope.resource().is_custom() {
            return prune::mistyped(schema, &whole, kind);
        }
        let metadata = schema.field("metadata").zip(object.0.get("metadata"));
        metadata.and_then(|(schema, value)| prune::mistyped(schema, value, "ObjectMeta"))
    }

    /// Returns the error for a body whose types do not match its kind.
    pub(super) fn undecodable(&self, object: &Object, message: &str) -> ApiError {
        let (kind, version) = (&self.scope.resource().kind, &self.scope.version().name);
        let message = format!("{kind} in version {version:?} cannot be handled as a {kind}: {message}");
        match self.reading {
            Reading::Body => ApiError::bad_request(message),
            Reading::Patched => {
                let patch = Value::Object(object.0.clone()).to_string().into();
                ApiError::invalid("", "", "", &[FieldError::invalid("patch", &patch, message)])
            }
            Reading::Apply => self.unfit(object, "convert new typed object", &message),
        }
    }

    /// Returns the error for a configuration that does not fit the schema. In kube-apiserver, this error is
    /// untyped, so it is a 500.
    fn unfit(&self, object: &Object, attempt: &str, detail: &str) -> ApiError {
        let (namespace, name, kind) = (object.namespace(), object.name(), object.kind());
        let (group, version) = (&self.target.group, &self.scope.version().name);
        ApiError::unexpected(format!(
            "failed to {attempt} ({namespace}/{name}; {group}/{version}, Kind={kind}): {detail}"
        ))
    }

    fn unknown_fields(&mut self, object: &Object, unknown: &[String]) -> Result<(), ApiError> {
        if unknown.is_empty() {
            return Ok(());
        }
        let (kind, version) = (object.kind(), &self.scope.version().name);
        if self.reading == Reading::Apply {
            // kube-apiserver also reports just one field of a map.
            let first = unknown.first().map_or("", String::as_str);
            let detail = format!(".{first}: field not declared in schema");
            return Err(self.unfit(object, "create typed patch object", &detail));
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
        if self.reading == Reading::Patched && !self.scope.resource().is_custom() {
            let found = object::Gvk::parse(found_version, found_kind);
            return Err(self.undecodable(object, &format!("found {}, Kind={}", found.version, found.kind)));
        }
        if found_version != api_version {
            let message = format!(
                "the API version in the data ({found_version}) does not match the expected API version ({api_version})"
            );
            return Err(ApiError::bad_request(message));
        }
        if self.scope.resource().is_custom() {
            let error = FieldError::invalid("kind", &found_kind.into(), format!("must be {kind}"));
            return Err(ApiError::invalid(&self.target.group, found_kind, object.name(), &[error]));
        }
        let version = &self.scope.version().name;
        Err(ApiError::bad_request(format!(
            "{found_kind} in version {version:?} cannot be handled as a {kind}"
        )))
    }

    /// Rejects a body with a different uid.
    pub(super) fn check_uid(&self, old: &Object, new: &Object) -> Result<(), ApiError> {
        if new.uid().is_empty() || new.uid() == old.uid() {
            return Ok(());
        }
        if self.reading == Reading::Patched {
            let error = FieldError::invalid("metadata.uid", &new.uid().into(), "field is immutable");
            return Err(ApiError::invalid_object(self.scope.resource(), old.name(), &[error]));
        }
        let detail = format!(
            "Precondition failed: UID in precondition: {}, UID in object meta: {}",
            new.uid(),
            old.uid()
        );
        Err(ApiError::conflict(self.target, &detail))
    }

    /// Rejects a body with a different version.
    pub(super) fn check_version(&self, old: &Object, new: &Object) -> Result<(), ApiError> {
        let expected = new.resource_version();
        if !expected.is_empty() && expected.parse::<u64>().is_err() {
            let message = format!("strconv.ParseUint: parsing {expected:?}: invalid syntax");
            return Err(ApiError::unexpected(message));
        }
        if !expected.is_empty() && expected != "0" && expected != old.resource_version() {
            let message =
                "the object has been modified; please apply your changes to the latest version and try again";
            return Err(ApiError::conflict(self.target, message));
        }
        Ok(())
    }
}
