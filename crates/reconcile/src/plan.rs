//! What should be written, as data.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use object::{Gvk, Key, Kind, Object, ObjectRef};

/// What a controller wants done about one key.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plan {
    /// Barriers: a step starts only when every action of the one before succeeded.
    pub steps: Vec<Vec<Action>>,
    /// The status to write at the end, unless [`Controller::conclude`](super::Controller::conclude) says
    /// otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<StatusWrite>,
    /// Events to record once the steps have succeeded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// When to plan again although nothing changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake_at: Option<Timestamp>,
    /// Kinds that must be watched for this key on the observed cluster (the hub in the operator, the spoke in
    /// the agent), replacing what its last plan asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub observe: Vec<Gvk>,
}

impl Plan {
    /// A plan that writes nothing.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Appends a step; an empty one is left out.
    pub fn step(&mut self, actions: impl IntoIterator<Item = Action>) {
        let actions: Vec<_> = actions.into_iter().collect();
        if !actions.is_empty() {
            self.steps.push(actions);
        }
    }

    /// Asks to be planned again at `at`, or at an earlier time already asked for.
    pub fn wake(&mut self, at: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// Whether executing the plan writes anything.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.status.is_none() && self.events.is_empty()
    }
}

/// Which API server an action writes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Site {
    /// The hub.
    #[default]
    Hub,
    /// The cluster the agent runs for.
    Spoke,
}

/// One write. The set is closed: whoever executes plans handles every variant.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "action", rename_all = "camelCase")]
pub enum Action {
    /// Server-side apply under the controller's field manager
    /// ([KEP-555](https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/555-server-side-apply)).
    Apply {
        /// Where.
        site: Site,
        /// What; names exactly the fields the controller owns.
        object: Object,
        /// Takes fields that another manager owns with another value; without it they fail the action.
        force: bool,
        /// Field manager where it is not the controller's name.
        manager: Option<String>,
        /// The user that the request [impersonates]; `None` for the identity of the process.
        ///
        /// [impersonates]:
        /// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
        impersonate: Option<String>,
        /// Asks whether the server would take the object, and writes nothing
        /// ([KEP-576](https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/576-dry-run)).
        dry_run: bool,
    },
    /// Creates an object; one of that name that exists already is a success and is left as it is.
    Create {
        /// Where.
        site: Site,
        /// What.
        object: Object,
    },
    /// JSON merge patch (RFC 7386).
    Patch {
        /// Where.
        site: Site,
        /// Which object.
        target: ObjectRef,
        /// The part of it the patch goes to.
        subresource: Subresource,
        /// The patch, without the precondition.
        patch: Map<String, Value>,
        /// What must still be true of the object.
        precondition: Precondition,
    },
    /// Replaces an object that cannot be patched to what it should be; its resource version is the
    /// precondition.
    Replace {
        /// Where.
        site: Site,
        /// The whole object, with the resource version it replaces.
        object: Object,
    },
    /// Deletes an object in the background; one that is gone already is a success.
    Delete {
        /// Where.
        site: Site,
        /// Which object.
        target: ObjectRef,
        /// What must still be true of it.
        precondition: Precondition,
        /// Leaves its dependents in place.
        orphan: bool,
        /// The user that the request impersonates; `None` for the identity of the process.
        impersonate: Option<String>,
    },
    /// Commits files to a branch of a repository and pushes with compare-and-swap.
    Push(Box<Push>),
}

impl Action {
    /// Applies an object to the hub and takes the fields it names.
    pub fn apply(object: Object) -> Self {
        Self::Apply { site: Site::Hub, object, force: true, manager: None, impersonate: None, dry_run: false }
    }

    /// Applies a typed object to the hub and takes the fields it names.
    pub fn apply_typed<K: Kind>(object: &K) -> Self {
        Self::apply(Object::from_typed(object))
    }

    /// Creates an object on the hub unless it exists.
    pub fn create(object: Object) -> Self {
        Self::Create { site: Site::Hub, object }
    }

    /// Deletes an object from the hub, if it is still the one that was read.
    pub fn delete<K: Kind>(object: &K) -> Self {
        Self::Delete {
            site: Site::Hub,
            target: ObjectRef::of::<K>(Key::of(object)),
            precondition: Precondition::uid(object),
            orphan: false,
            impersonate: None,
        }
    }

    /// The API server it writes to; `None` for a push.
    pub fn site(&self) -> Option<Site> {
        match self {
            Self::Apply { site, .. }
            | Self::Create { site, .. }
            | Self::Patch { site, .. }
            | Self::Replace { site, .. }
            | Self::Delete { site, .. } => Some(*site),
            Self::Push(_) => None,
        }
    }

    /// The kind of object it writes; `None` for a push.
    pub fn gvk(&self) -> Option<Gvk> {
        match self {
            Self::Apply { object, .. } | Self::Create { object, .. } | Self::Replace { object, .. } => {
                Some(object.gvk())
            }
            Self::Patch { target, .. } | Self::Delete { target, .. } => Some(target.gvk.clone()),
            Self::Push(_) => None,
        }
    }

    /// Merge-patches a typed object on the hub, if nobody wrote it since it was read.
    pub fn patch<K: Kind>(object: &K, patch: Map<String, Value>) -> Self {
        Self::Patch {
            site: Site::Hub,
            target: ObjectRef::of::<K>(Key::of(object)),
            subresource: Subresource::None,
            patch,
            precondition: Precondition::unchanged(object),
        }
    }
}

/// The part of an object a patch goes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Subresource {
    /// The object itself.
    #[default]
    None,
    /// `/status`.
    Status,
    /// `/approval` of a certificate signing request.
    Approval,
}

/// What must still be true of an object for a write to it to happen; empty fields are not checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Precondition {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
}

impl Precondition {
    /// The object is still the same one, whatever was written to it.
    pub fn uid<K: Kind>(object: &K) -> Self {
        Self { uid: object.meta().uid.clone().unwrap_or_default(), resource_version: String::new() }
    }

    /// Nobody wrote to the object.
    pub fn unchanged<K: Kind>(object: &K) -> Self {
        Self {
            resource_version: object.meta().resource_version.clone().unwrap_or_default(),
            ..Self::uid(object)
        }
    }
}

/// The one status write of a reconcile: a merge patch of `/status`, refused with a conflict when anyone wrote
/// in between.
///
/// OCM shares `status.conditions` between writers in lists that some CRDs declare atomic, and its own writers
/// replace them whole under the resource version; server-side apply would take the conditions of the others.
/// So status goes the same way.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StatusWrite {
    /// Where the object is.
    pub site: Site,
    /// The object.
    pub target: ObjectRef,
    /// It must be as it was read.
    pub precondition: Precondition,
    /// The difference from the status that was read, as `{"status": …}`.
    pub patch: Map<String, Value>,
}

impl StatusWrite {
    /// The write that turns the status of `old` into that of `new`; `None` when they are equal.
    ///
    /// Both are the whole object; only their `status` is compared. Fields the type does not know are left as
    /// they are.
    pub fn between<K: Kind>(old: &K, new: &K) -> Option<Self> {
        let before = Object::from_typed(old);
        let after = Object::from_typed(new);
        let none = Value::Null;
        let (before, after) =
            (before.0.get("status").unwrap_or(&none), after.0.get("status").unwrap_or(&none));
        let patch = object::merge_diff(before, after)?;
        Some(Self {
            site: Site::Hub,
            target: ObjectRef::of::<K>(Key::of(old)),
            precondition: Precondition::unchanged(old),
            patch: Map::from_iter([("status".to_owned(), patch)]),
        })
    }

    /// The same write, to the spoke.
    #[must_use]
    pub fn on(mut self, site: Site) -> Self {
        self.site = site;
        self
    }

    /// As an action, for executors.
    pub fn action(&self) -> Action {
        Action::Patch {
            site: self.site,
            target: self.target.clone(),
            subresource: Subresource::Status,
            patch: self.patch.clone(),
            precondition: self.precondition.clone(),
        }
    }
}

/// Files to commit to a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Push {
    /// The `ConfigRepo` it reports on.
    pub repo: Key,
    /// URL of the remote.
    pub url: String,
    /// The Secret with credentials that may write, if any are needed.
    pub secret: Option<Key>,
    /// Branch to push to; created as an orphan where it does not exist.
    pub branch: String,
    /// Directory of the branch; empty for the root.
    pub directory: String,
    /// The hub and the ConfigRepo that report there. Files of another owner stay.
    pub owner: String,
    /// All files of the owner below that directory.
    pub files: BTreeMap<String, String>,
    /// Commit message with its trailers.
    pub message: String,
    /// Time of the commit: when what it reports came about, so that the same report gives the same commit.
    pub time: Timestamp,
    /// The Secret with the key that signs the commit, if it is signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signing: Option<Key>,
}

/// An event about an object, for people (`events.k8s.io/v1`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Event {
    /// The object the event is about.
    pub regarding: ObjectRef,
    /// Its uid.
    pub uid: String,
    /// Another object that played a part, and its uid where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub related: Option<(ObjectRef, String)>,
    /// Normal or Warning.
    pub event_type: EventType,
    /// CamelCase word.
    pub reason: String,
    /// CamelCase word for what was attempted.
    pub action: String,
    /// A sentence.
    pub message: String,
}

/// `type` of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum EventType {
    /// Nothing to do.
    Normal,
    /// Somebody should look.
    Warning,
}

/// A plan and what became of it.
#[derive(Clone, Debug)]
pub struct Executed {
    /// The plan, as it was decided.
    pub plan: Plan,
    /// One outcome per action, step by step; steps that were not reached are absent.
    pub outcomes: Vec<Vec<Outcome>>,
}

/// What became of an action: the object as the API server returned it (`None` for deletions and pushes), or
/// why not.
pub type Outcome = Result<Option<Object>, Failure>;

/// A write that did not happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What to do about it.
    pub kind: FailureKind,
    /// What the server said, with the name of the object.
    pub message: String,
}

/// What a failed write calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// Somebody wrote in between: plan again on what is there now.
    Conflict,
    /// Another field manager owns a field with another value (server-side apply).
    FieldConflict,
    /// The object is invalid or its kind is not served: a user must change something.
    Invalid,
    /// The server refuses us this write.
    Forbidden,
    /// The object to patch does not exist.
    NotFound,
    /// The server could not be reached or was too busy: try again later.
    Unavailable,
}

impl Failure {
    /// A refusal by an API server: its HTTP status code and the reasons of its causes say what it calls for.
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
            _ => FailureKind::Unavailable,
        };
        Self { kind, message: format!("cannot write {target}: {message}") }
    }

    /// A kind that the API server does not serve.
    pub fn not_served(gvk: &Gvk) -> Self {
        let message = format!(
            "{} {} is not served by the API server; is its CRD installed?",
            gvk.api_version(),
            gvk.kind
        );
        Self { kind: FailureKind::Invalid, message }
    }
}

impl Executed {
    /// Whether every step was reached and every action succeeded.
    pub fn is_success(&self) -> bool {
        self.outcomes.len() == self.plan.steps.len() && self.failures().next().is_none()
    }

    /// Actions with their failures.
    pub fn failures(&self) -> impl Iterator<Item = (&Action, &Failure)> {
        self.results().filter_map(|(action, outcome)| Some((action, outcome.as_ref().err()?)))
    }

    /// Actions that were attempted, with their outcomes.
    pub fn results(&self) -> impl Iterator<Item = (&Action, &Outcome)> {
        self.plan.steps.iter().zip(&self.outcomes).flat_map(|(step, outcomes)| step.iter().zip(outcomes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
