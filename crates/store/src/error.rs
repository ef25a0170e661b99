//! Errors as `Status` objects, as a real API server returns them.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};

use super::{ApiResource, ResourcePath};

/// The rejection of a request: a Kubernetes `Status` with the reason, code, message and causes of kube-apiserver.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError(Box<Status>);

impl std::error::Error for ApiError {}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.message())
    }
}

/// An invalid field, with the text of apimachinery's `field.Error`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The machine-readable type, such as `FieldValueInvalid`.
    pub reason: &'static str,
    /// The path of the field, such as `spec.replicas`.
    pub field: String,
    /// The message, such as `Invalid value: -1: must be positive`.
    pub message: String,
}

impl FieldError {
    fn new(reason: &'static str, field: impl Into<String>, message: String) -> Self {
        Self { reason, field: field.into(), message }
    }

    /// Returns the error that the value is invalid; `value` is printed as JSON.
    pub fn invalid(
        field: impl Into<String>,
        value: &serde_json::Value,
        detail: impl std::fmt::Display,
    ) -> Self {
        Self::new("FieldValueInvalid", field, format!("Invalid value: {value}: {detail}"))
    }

    /// Returns the error that the value has the wrong type.
    pub(crate) fn type_invalid(
        field: impl Into<String>,
        found: &str,
        detail: impl std::fmt::Display,
    ) -> Self {
        Self::new("FieldValueTypeInvalid", field, format!("Invalid value: {found:?}: {detail}"))
    }

    /// Returns the error that the value is missing.
    pub(crate) fn required(field: impl Into<String>, detail: &str) -> Self {
        let message =
            if detail.is_empty() { "Required value".into() } else { format!("Required value: {detail}") };
        Self::new("FieldValueRequired", field, message)
    }

    /// Returns the error that the value is not supported.
    pub fn unsupported<'a>(
        field: impl Into<String>,
        value: &serde_json::Value,
        supported: impl Iterator<Item = &'a str>,
    ) -> Self {
        let supported: Vec<_> = supported.map(|one| format!("{one:?}")).collect();
        Self::new(
            "FieldValueNotSupported",
            field,
            format!("Unsupported value: {value}: supported values: {}", supported.join(", ")),
        )
    }

    /// Returns the error that the value is a duplicate.
    pub(crate) fn duplicate(field: impl Into<String>, value: &serde_json::Value) -> Self {
        Self::new("FieldValueDuplicate", field, format!("Duplicate value: {value}"))
    }

    /// Returns the error that the value may not be set, or not by this request.
    pub fn forbidden(field: impl Into<String>, detail: impl std::fmt::Display) -> Self {
        Self::new("FieldValueForbidden", field, format!("Forbidden: {detail}"))
    }

    /// Returns the error that the text is too long.
    pub fn too_long(field: impl Into<String>, most: u64) -> Self {
        Self::new("FieldValueTooLong", field, format!("Too long: may not be more than {most} bytes"))
    }

    /// Returns the error that the list or map has too many entries.
    pub(crate) fn too_many(field: impl Into<String>, found: usize, most: u64) -> Self {
        Self::new("FieldValueTooMany", field, format!("Too many: {found}: must have at most {most} items"))
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl ApiError {
    fn failure(code: i32, reason: &str, message: String, details: Option<StatusDetails>) -> Self {
        Self(Box::new(Status {
            code: Some(code),
            reason: (!reason.is_empty()).then(|| reason.to_owned()),
            message: Some(message),
            status: Some("Failure".into()),
            details,
            ..Status::default()
        }))
    }

    /// Returns the `Status` to send.
    pub fn status(&self) -> &Status {
        &self.0
    }

    /// Returns the HTTP status code.
    pub fn code(&self) -> u16 {
        self.0.code.and_then(|code| u16::try_from(code).ok()).unwrap_or(500)
    }

    /// Returns the reason, such as `NotFound`.
    pub fn reason(&self) -> &str {
        self.0.reason.as_deref().unwrap_or_default()
    }

    /// Returns the message for people.
    pub fn message(&self) -> &str {
        self.0.message.as_deref().unwrap_or_default()
    }

    /// Returns the errors by field; empty if the rejection is not about fields.
    pub fn causes(&self) -> &[StatusCause] {
        self.0.details.as_ref().and_then(|details| details.causes.as_deref()).unwrap_or_default()
    }

    /// Returns 404 for a path that is not served.
    pub fn no_such_path() -> Self {
        let details = StatusDetails::default();
        Self::failure(
            404,
            "NotFound",
            "the server could not find the requested resource".into(),
            Some(details),
        )
    }

    /// Returns 404 for an object that does not exist.
    pub(crate) fn not_found(target: &ResourcePath) -> Self {
        Self::failure(
            404,
            "NotFound",
            format!("{} {:?} not found", target.qualified(), target.name),
            Some(target.details()),
        )
    }

    /// Returns 409 for an object that already exists.
    pub(crate) fn already_exists(target: &ResourcePath) -> Self {
        Self::failure(
            409,
            "AlreadyExists",
            format!("{} {:?} already exists", target.qualified(), target.name),
            Some(target.details()),
        )
    }

    /// Returns 409 for a write that conflicts with another one.
    pub fn conflict(target: &ResourcePath, detail: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} {:?}: {detail}", target.qualified(), target.name);
        Self::failure(409, "Conflict", message, Some(target.details()))
    }

    /// Returns 409 for a server-side apply of fields that others own, with one cause per field.
    pub(crate) fn apply_conflict(conflicts: &[(String, String)]) -> Self {
        let causes = conflicts.iter().map(|(manager, field)| StatusCause {
            field: Some(field.clone()),
            message: Some(format!("conflict with {manager}")),
            reason: Some("FieldManagerConflict".into()),
        });
        let message = match conflicts {
            [(manager, field)] => format!("Apply failed with 1 conflict: conflict with {manager}: {field}"),
            many => {
                let mut lines = format!("Apply failed with {} conflicts:", many.len());
                let mut last = "";
                for (manager, field) in many {
                    if manager != last {
                        lines +=
                            &format!("{} conflicts with {manager}:", if last.is_empty() { "" } else { "\n" });
                        last = manager;
                    }
                    lines += &format!("\n- {field}");
                }
                lines
            }
        };
        let details = StatusDetails { causes: Some(causes.collect()), ..StatusDetails::default() };
        Self::failure(409, "Conflict", message, Some(details))
    }

    /// Returns 422 with every invalid field.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let mut seen = BTreeSet::new();
        let listed: Vec<&str> = texts.iter().map(String::as_str).filter(|text| seen.insert(*text)).collect();
        let list = if let [one] = listed.as_slice() {
            (*one).to_owned()
        } else {
            format!("[{}]", listed.join(", "))
        };
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let causes = errors.iter().map(|error| StatusCause {
            field: Some(error.field.clone()),
            message: Some(error.message.clone()),
            reason: Some(error.reason.into()),
        });
        let details = StatusDetails {
            causes: Some(causes.collect()),
            group: (!group.is_empty()).then(|| group.to_owned()),
            kind: (!kind.is_empty()).then(|| kind.to_owned()),
            name: (!name.is_empty()).then(|| name.to_owned()),
            ..StatusDetails::default()
        };
        Self::failure(422, "Invalid", format!("{qualified} {name:?} is invalid: {list}"), Some(details))
    }

    /// Returns 422 for an object of a resource.
    pub(crate) fn invalid_object(resource: &ApiResource, name: &str, errors: &[FieldError]) -> Self {
        Self::invalid(&resource.group, &resource.kind, name, errors)
    }

    /// Returns 400 for a malformed request.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, "BadRequest", message.into(), None)
    }

    /// Returns 403 for a write that the server forbids to every user.
    pub fn forbidden(target: &ResourcePath, detail: &str) -> Self {
        let name = if target.name.is_empty() { String::new() } else { format!(" {:?}", target.name) };
        Self::failure(
            403,
            "Forbidden",
            format!("{}{name} is forbidden: {detail}", target.qualified()),
            Some(target.details()),
        )
    }

    /// Returns the denial of an admission policy: 403, or the code for the reason of its validation.
    pub(crate) fn denied_by_policy(target: &ResourcePath, detail: &str, reason: &str) -> Self {
        let Self(mut status) = Self::forbidden(target, detail);
        let code = match reason {
            "Unauthorized" => 401,
            "Forbidden" => 403,
            "RequestEntityTooLarge" => 413,
            _ => 422,
        };
        status.code = Some(code);
        status.reason = Some(reason.to_owned());
        let cause = StatusCause { message: Some(detail.to_owned()), ..StatusCause::default() };
        status.details.get_or_insert_default().causes = Some(vec![cause]);
        Self(status)
    }

    /// Returns 403 for a path without objects.
    pub fn forbidden_path(detail: &str) -> Self {
        Self::failure(403, "Forbidden", format!("forbidden: {detail}"), Some(StatusDetails::default()))
    }

    /// Returns 401 for invalid credentials.
    pub fn unauthorized() -> Self {
        Self::failure(401, "Unauthorized", "Unauthorized".into(), None)
    }

    /// Returns 406 for a representation that the server does not have.
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::failure(406, "NotAcceptable", message.into(), None)
    }

    /// Returns 403 for new content in a terminating namespace.
    pub(crate) fn namespace_terminating(target: &ResourcePath) -> Self {
        let namespace = &target.namespace;
        let detail =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let Self(mut status) = Self::forbidden(target, &detail);
        let cause = StatusCause {
            field: Some("metadata.namespace".into()),
            message: Some(format!("namespace {namespace} is being terminated")),
            reason: Some("NamespaceTerminating".into()),
        };
        status.details.get_or_insert_default().causes = Some(vec![cause]);
        Self(status)
    }

    /// Returns 410 for a resource version or continue token whose history has been dropped.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, "Expired", message.into(), None)
    }

    /// Returns 405 for a verb that the resource does not support.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::failure(405, "MethodNotAllowed", message.into(), Some(StatusDetails::default()))
    }

    /// Returns 405 for a verb that a subresource does not support.
    pub(crate) fn method_not_allowed_on(target: &ResourcePath) -> Self {
        let Self(mut status) = Self::method_not_allowed();
        status.details = Some(StatusDetails { name: None, ..target.details() });
        Self(status)
    }

    /// Returns 504 for a resource version in the future.
    pub(crate) fn too_large_version(wanted: u64, current: u64) -> Self {
        let cause = StatusCause {
            reason: Some("ResourceVersionTooLarge".into()),
            message: Some("Too large resource version".into()),
            field: None,
        };
        let details = StatusDetails {
            retry_after_seconds: Some(1),
            causes: Some(vec![cause]),
            ..StatusDetails::default()
        };
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        Self::failure(504, "Timeout", message, Some(details))
    }

    /// Returns 504 for a request whose body does not arrive.
    pub fn request_timeout() -> Self {
        let message = "Timeout: request did not complete within the allotted timeout";
        Self::failure(504, "Timeout", message.into(), Some(StatusDetails::default()))
    }

    /// Returns 429 for a request above the limit of concurrent requests.
    pub fn too_many_requests() -> Self {
        let details = StatusDetails { retry_after_seconds: Some(1), ..StatusDetails::default() };
        let message = "too many requests, please try again later";
        Self::failure(429, "TooManyRequests", message.into(), Some(details))
    }

    /// Returns 413 for an object that is too large to store.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::failure(413, "RequestEntityTooLarge", message.into(), None)
    }

    /// Returns 422 for a JSON patch that does not fit the object. Like kube-apiserver, it includes no details.
    pub(crate) fn unprocessable() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::failure(422, "Invalid", message.into(), Some(StatusDetails::default()))
    }

    /// Returns 500 without a reason, as kube-apiserver does for an untyped error.
    pub fn unexpected(message: impl Into<String>) -> Self {
        Self::failure(500, "", message.into(), None)
    }

    /// Returns 415 for a patch type that the resource does not support.
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::failure(415, "UnsupportedMediaType", message.into(), None)
    }

    /// Returns 500 for an internal error.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        let cause = StatusCause { message: Some(message.to_string()), ..StatusCause::default() };
        let details = StatusDetails { causes: Some(vec![cause]), ..StatusDetails::default() };
        Self::failure(500, "InternalError", format!("Internal error occurred: {message}"), Some(details))
    }
}
