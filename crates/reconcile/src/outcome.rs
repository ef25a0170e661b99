//! The outcomes of the writes of a plan.

use std::sync::Arc;

use crate::{Action, Plan};
use object::{Gvk, Object, ObjectRef};

/// A plan and the outcomes of its actions.
#[derive(Clone, Debug)]
pub struct Executed {
    /// The plan, as decided.
    pub plan: Plan,
    /// One outcome per action, step by step; steps that were not reached are absent. Objects written to the hub
    /// are left out.
    pub outcomes: Vec<Vec<Outcome>>,
}

impl Executed {
    /// Returns true if every step was reached and every action succeeded.
    pub fn is_success(&self) -> bool {
        self.outcomes.len() == self.plan.steps.len() && self.failures().next().is_none()
    }

    /// Returns the failed actions with their failures.
    pub fn failures(&self) -> impl Iterator<Item = (&Action, &Failure)> {
        self.results().filter_map(|(action, outcome)| Some((action, outcome.as_ref().err()?)))
    }

    /// Returns the attempted actions with their outcomes.
    pub fn results(&self) -> impl Iterator<Item = (&Action, &Outcome)> {
        self.plan.steps.iter().zip(&self.outcomes).flat_map(|(step, outcomes)| step.iter().zip(outcomes))
    }
}

/// The outcome of an action: the server's answer, or the failure.
pub type Outcome = Result<Answer, Failure>;

/// The answer of a server to a successful write.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The object that the API server returned. Its managed fields may be text, as in caches.
    Object(Arc<Object>),
    /// The name of the pushed commit.
    Commit(String),
    /// Success without a result: a deletion, a dry run, a commit status, a notification, or a push of files that
    /// the branch already had.
    Nothing,
}

impl Answer {
    /// Returns the object that the API server returned, if any.
    pub fn object(&self) -> Option<&Object> {
        match self {
            Self::Object(object) => Some(object),
            Self::Commit(_) | Self::Nothing => None,
        }
    }
}

impl From<Object> for Answer {
    fn from(object: Object) -> Self {
        Self::Object(Arc::new(object))
    }
}

impl From<Option<Object>> for Answer {
    fn from(object: Option<Object>) -> Self {
        object.map_or(Self::Nothing, Self::from)
    }
}

/// A failed write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The kind of failure, which decides the retry.
    pub kind: FailureKind,
    /// The server's message, with the name of the object.
    pub message: String,
}

/// The kinds of failed writes, by the retry that they need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// Another client wrote in between. Plan again from the current state.
    Conflict,
    /// Another field manager owns a field with a different value (server-side apply).
    FieldConflict,
    /// The object is invalid or its kind is not served. A user must change something.
    Invalid,
    /// The server forbids the write.
    Forbidden,
    /// The object to patch does not exist.
    NotFound,
    /// The server was unreachable or too busy. Try again later.
    Unavailable,
}

const NOT_SERVED: &str = "is not served by the API server";

impl Failure {
    /// Classifies an API server's refusal by its HTTP status code and the reasons of its causes.
    pub fn refused<'a>(
        target: &ObjectRef,
        code: u16,
        mut causes: impl Iterator<Item = &'a str>,
        message: &str,
    ) -> Self {
        let kind = match code {
            409 if causes.any(|reason| reason == "FieldManagerConflict") => FailureKind::FieldConflict,
            409 => FailureKind::Conflict,
            400 | 405 | 413 | 415 | 422 => FailureKind::Invalid,
            401 | 403 => FailureKind::Forbidden,
            404 => FailureKind::NotFound,
            500 if does_not_fit(message) => FailureKind::Invalid,
            _ => FailureKind::Unavailable,
        };
        Self { kind, message: format!("cannot write {target}: {message}") }
    }

    /// Returns true if the server refuses the write until somebody changes something.
    pub fn is_refusal(&self) -> bool {
        match self.kind {
            FailureKind::Forbidden | FailureKind::Invalid | FailureKind::NotFound => true,
            FailureKind::Conflict | FailureKind::FieldConflict | FailureKind::Unavailable => false,
        }
    }

    /// Returns true if the server rejects the object itself, so that retrying the same write cannot succeed. A
    /// kind that is not served yet, a namespace that is being deleted and an expired identity are not such a
    /// rejection.
    pub fn rejects_object(&self) -> bool {
        let passes = [NOT_SERVED, "because it is being terminated", "Unauthorized"];
        match self.kind {
            FailureKind::Forbidden | FailureKind::Invalid => {
                passes.iter().all(|words| !self.message.contains(words))
            }
            FailureKind::Conflict
            | FailureKind::FieldConflict
            | FailureKind::NotFound
            | FailureKind::Unavailable => false,
        }
    }

    /// Returns the failure for a kind that the API server does not serve.
    pub fn not_served(gvk: &Gvk) -> Self {
        let message = format!("{} {} {NOT_SERVED}; is its CRD installed?", gvk.api_version(), gvk.kind);
        Self { kind: FailureKind::Invalid, message }
    }
}

/// Returns true if the message of a 500 says that an object does not fit the schema of its kind.
///
/// API servers return these errors of server-side apply without a type, so only the text distinguishes them from
/// an outage. See `Apply` in
/// [structuredmerge.go](https://github.com/kubernetes/apimachinery/blob/master/pkg/util/managedfields/internal/structuredmerge.go).
/// A failed conversion does not count, because the conversion webhook may be down.
fn does_not_fit(message: &str) -> bool {
    const ERRORS: [&str; 3] = [
        "failed to create typed patch object",
        "failed to create typed live object",
        "failed to convert new typed object",
    ];
    ERRORS.iter().any(|error| message.contains(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::Key;

    #[test]
    fn a_refusal_says_what_to_do() {
        let target = ObjectRef { gvk: Gvk::parse("v1", "ConfigMap"), key: Key::namespaced("ns", "a") };
        let cases = [
            (409, "", FailureKind::Conflict),
            (409, "FieldManagerConflict", FailureKind::FieldConflict),
            (422, "FieldValueInvalid", FailureKind::Invalid),
            (403, "", FailureKind::Forbidden),
            (404, "", FailureKind::NotFound),
            (429, "", FailureKind::Unavailable),
            (500, "", FailureKind::Unavailable),
        ];
        for (code, cause, kind) in cases {
            let failure = Failure::refused(&target, code, [cause].into_iter(), "no");
            assert_eq!(
                (failure.kind, failure.message.as_str()),
                (kind, "cannot write ConfigMap ns/a: no"),
                "{code} {cause}"
            );
        }
    }

    #[test]
    fn an_object_that_does_not_fit_its_schema_is_invalid_and_other_server_errors_are_outages() {
        let target = ObjectRef { gvk: Gvk::parse("v1", "ConfigMap"), key: Key::namespaced("ns", "a") };
        let cases = [
            (
                500,
                "failed to create typed patch object (ns/a; /v1, Kind=ConfigMap): .dat: field not declared in schema",
                FailureKind::Invalid,
            ),
            (
                500,
                "failed to create typed live object (ns/a; /v1, Kind=ConfigMap): .dat: field not declared in schema",
                FailureKind::Invalid,
            ),
            (
                500,
                "failed to convert new typed object (ns/a; apps/v1, Kind=Deployment) to object: cannot convert string to int64",
                FailureKind::Invalid,
            ),
            (
                500,
                "failed to convert new object (ns/a; example.com/v1, Kind=W) to proper version (example.com/v2): conversion webhook \
                 for example.com/v1, Kind=W failed: Post \"https://w.ns.svc\": connection refused",
                FailureKind::Unavailable,
            ),
            (
                500,
                "Internal error occurred: failed calling webhook \"w.example.com\": connection refused",
                FailureKind::Unavailable,
            ),
            (503, "failed to create typed patch object", FailureKind::Unavailable),
        ];
        for (code, message, kind) in cases {
            let failure = Failure::refused(&target, code, [].into_iter(), message);
            assert_eq!(failure.kind, kind, "{code} {message}");
        }
    }
}
