//! Plans: the writes of a controller, as data.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use super::Event;
use super::git::{CommitStatus, Push};
use super::notification::Notification;
use object::{Gvk, Key, Kind, Object, ObjectRef};

/// The writes that a controller plans for one key, and the time of its next plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plan {
    /// The steps, which are barriers: each starts only after every action of the previous one has succeeded.
    pub steps: Vec<Vec<Action>>,
    /// The status to write at the end, unless [`Controller::conclude`](super::Controller::conclude) returns
    /// another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<StatusWrite>,
    /// Events to record once the steps have succeeded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// When to plan again even if nothing changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake_at: Option<Timestamp>,
    /// Kinds to watch for this key on the observed cluster (the hub in the operator, the spoke in the agent). They
    /// replace the kinds of the key's last plan.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub observe: Vec<Gvk>,
    /// The generation of the planned object, if the conclusion must be about the same one.
    #[serde(skip)]
    pub generation: Option<i64>,
}

impl Plan {
    /// Returns a plan that writes nothing.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Appends a step, unless it is empty.
    pub fn step(&mut self, actions: impl IntoIterator<Item = Action>) {
        let actions: Vec<_> = actions.into_iter().collect();
        if !actions.is_empty() {
            self.steps.push(actions);
        }
    }

    /// Requests another plan at `at`, unless an earlier one is already requested.
    pub fn wake(&mut self, at: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// Returns true if executing the plan writes nothing.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.status.is_none() && self.events.is_empty()
    }
}

/// The API server that an action writes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Site {
    /// The API server that manages the fleet.
    #[default]
    Hub,
    /// The spoke of the agent.
    Spoke,
}

/// One write. The set is closed: an executor handles every variant.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "action", rename_all = "camelCase")]
pub enum Action {
    /// Server-side apply under the controller's field manager
    /// ([KEP-555](https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/555-server-side-apply)).
    Apply {
        /// The API server.
        site: Site,
        /// The object, with exactly the fields that the controller owns.
        object: Object,
        /// If true, takes over fields that another manager owns with a different value, instead of failing.
        force: bool,
        /// The field manager, if it is not the controller's name.
        manager: Option<String>,
        /// The user that the request [impersonates]; `None` for the identity of the process.
        ///
        /// [impersonates]:
        /// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
        impersonate: Option<String>,
        /// If true, only checks that the server accepts the object
        /// ([KEP-576](https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/576-dry-run)).
        dry_run: bool,
    },
    /// Creates an object. If an object of that name exists, the action succeeds and leaves it unchanged.
    Create {
        /// The API server.
        site: Site,
        /// The whole object.
        object: Object,
        /// The user that the request impersonates; `None` for the identity of the process.
        impersonate: Option<String>,
    },
    /// JSON merge patch (RFC 7386).
    Patch {
        /// The API server.
        site: Site,
        /// The key of the object.
        target: ObjectRef,
        /// The part of the object to patch.
        subresource: Subresource,
        /// The patch, without the precondition.
        patch: Map<String, Value>,
        /// The condition under which the server accepts the patch.
        precondition: Precondition,
        /// The user that the request impersonates; `None` for the identity of the process.
        impersonate: Option<String>,
    },
    /// Replaces an object that no patch can change as needed, on condition of its resource version.
    Replace {
        /// The API server.
        site: Site,
        /// The whole object, with the resource version that it replaces.
        object: Object,
    },
    /// Deletes an object with background propagation. If the object does not exist, the action succeeds.
    Delete {
        /// The API server.
        site: Site,
        /// The key of the object.
        target: ObjectRef,
        /// The condition under which the server deletes the object.
        precondition: Precondition,
        /// If true, keeps its dependents.
        orphan: bool,
        /// The user that the request impersonates; `None` for the identity of the process.
        impersonate: Option<String>,
    },
    /// Commits files to a branch of a repository and pushes with compare-and-swap.
    Push(Box<Push>),
    /// Sets the status of a commit at its git provider.
    SetCommitStatus(Box<CommitStatus>),
    /// Sends a message to a receiver of notifications.
    Notify(Box<Notification>),
}

impl Action {
    /// Applies an object to the hub, taking over the fields it sets.
    pub fn apply(object: Object) -> Self {
        Self::Apply { site: Site::Hub, object, force: true, manager: None, impersonate: None, dry_run: false }
    }

    /// Applies a typed object to the hub, taking over the fields it sets.
    pub fn apply_typed<K: Kind>(object: &K) -> Self {
        Self::apply(Object::from_typed(object))
    }

    /// Creates an object on the hub, unless it exists.
    pub fn create(object: Object) -> Self {
        Self::Create { site: Site::Hub, object, impersonate: None }
    }

    /// Deletes an object from the hub, if its uid is unchanged.
    pub fn delete<K: Kind>(object: &K) -> Self {
        Self::Delete {
            site: Site::Hub,
            target: ObjectRef::of::<K>(Key::of(object)),
            precondition: Precondition::uid(object),
            orphan: false,
            impersonate: None,
        }
    }

    /// Returns the API server it writes to; `None` for a push, a commit status and a notification.
    pub fn site(&self) -> Option<Site> {
        match self {
            Self::Apply { site, .. }
            | Self::Create { site, .. }
            | Self::Patch { site, .. }
            | Self::Replace { site, .. }
            | Self::Delete { site, .. } => Some(*site),
            Self::Push(_) | Self::SetCommitStatus(_) | Self::Notify(_) => None,
        }
    }

    /// Returns the object it writes; `None` for a push, a commit status and a notification.
    pub fn target(&self) -> Option<ObjectRef> {
        match self {
            Self::Apply { object, .. } | Self::Create { object, .. } | Self::Replace { object, .. } => {
                Some(object.reference())
            }
            Self::Patch { target, .. } | Self::Delete { target, .. } => Some(target.clone()),
            Self::Push(_) | Self::SetCommitStatus(_) | Self::Notify(_) => None,
        }
    }

    /// Returns the kind of object it writes; `None` for a push, a commit status and a notification.
    pub fn gvk(&self) -> Option<Gvk> {
        match self {
            Self::Apply { object, .. } | Self::Create { object, .. } | Self::Replace { object, .. } => {
                Some(object.gvk())
            }
            Self::Patch { target, .. } | Self::Delete { target, .. } => Some(target.gvk.clone()),
            Self::Push(_) | Self::SetCommitStatus(_) | Self::Notify(_) => None,
        }
    }

    /// Merge-patches a typed object on the hub, if no client has written it since it was read.
    pub fn patch<K: Kind>(object: &K, patch: Map<String, Value>) -> Self {
        Self::Patch {
            site: Site::Hub,
            target: ObjectRef::of::<K>(Key::of(object)),
            subresource: Subresource::None,
            patch,
            precondition: Precondition::unchanged(object),
            impersonate: None,
        }
    }
}

/// The part of an object that a patch changes.
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

/// The precondition of a write to an object. Empty fields are not checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Precondition {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
}

impl Precondition {
    /// Requires the same object; its content may differ.
    pub fn uid<K: Kind>(object: &K) -> Self {
        Self { uid: object.meta().uid.clone().unwrap_or_default(), resource_version: String::new() }
    }

    /// Requires that the object has not been written since it was read.
    pub fn unchanged<K: Kind>(object: &K) -> Self {
        Self {
            resource_version: object.meta().resource_version.clone().unwrap_or_default(),
            ..Self::uid(object)
        }
    }
}

/// The only status write of a reconciliation: a merge patch of `/status`, which the server rejects with a conflict
/// if another client has written the object in between.
///
/// OCM's writers share `status.conditions` in lists that some CRDs declare atomic, and replace whole lists under
/// the resource version. Server-side apply would take over the conditions of other writers, so this write replaces
/// the list too.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StatusWrite {
    /// The API server.
    pub site: Site,
    /// The object whose status to write.
    pub target: ObjectRef,
    /// The object must be unchanged since it was read.
    pub precondition: Precondition,
    /// The difference from the status that was read, as `{"status": …}`.
    pub patch: Map<String, Value>,
    /// Events that report the difference, recorded once it is written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
}

impl StatusWrite {
    /// Returns the write that changes the status of `old` into the status of `new`; `None` if they are equal.
    ///
    /// Both are whole objects, but only their `status` is compared; an absent status equals an empty one. Fields
    /// unknown to the type are unchanged.
    pub fn between<K: Kind + PartialEq>(old: &K, new: &K) -> Option<Self> {
        if old == new {
            return None;
        }
        let status = |object: &K| Object::from_typed(object).0.remove("status");
        Self::from_values(old, status(old), status(new))
    }

    /// Like [`StatusWrite::between`], but takes the status of an object before and after, to avoid copies of the
    /// object.
    ///
    /// # Panics
    /// Never in practice, because wire types serialize.
    pub fn from_status<K: Kind, S: Serialize + PartialEq>(
        object: &K,
        before: Option<&S>,
        after: &S,
    ) -> Option<Self> {
        if before == Some(after) {
            return None;
        }
        let value = |status: &S| {
            let mut value =
                serde_json::to_value(status).expect("wire types have string keys, so they serialize");
            object::whole_numbers(&mut value);
            value
        };
        Self::from_values(object, before.map(value), Some(value(after)))
    }

    fn from_values<K: Kind>(object: &K, before: Option<Value>, after: Option<Value>) -> Option<Self> {
        let [before, after] = [before, after].map(|status| status.unwrap_or_else(|| Map::new().into()));
        let patch = object::merge_diff(&before, &after)?;
        Some(Self {
            site: Site::Hub,
            target: ObjectRef::of::<K>(Key::of(object)),
            precondition: Precondition::unchanged(object),
            patch: Map::from_iter([("status".to_owned(), patch)]),
            events: Vec::new(),
        })
    }

    /// Adds events that report the difference.
    #[must_use]
    pub fn with_events(self, events: Vec<Event>) -> Self {
        Self { events, ..self }
    }

    /// Directs the write to another API server.
    #[must_use]
    pub fn on(mut self, site: Site) -> Self {
        self.site = site;
        self
    }

    /// Returns the write as an action, for executors.
    pub fn action(&self) -> Action {
        Action::Patch {
            site: self.site,
            target: self.target.clone(),
            subresource: Subresource::Status,
            patch: self.patch.clone(),
            precondition: self.precondition.clone(),
            impersonate: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::{Namespace, NamespaceStatus};
    use serde_json::json;

    #[test]
    fn an_absent_status_is_equal_to_an_empty_one() {
        let old = Namespace::default();
        let with = |phase: Option<&str>| {
            let status = NamespaceStatus { phase: phase.map(str::to_owned), ..NamespaceStatus::default() };
            Namespace { status: Some(status), ..Namespace::default() }
        };
        assert_eq!(StatusWrite::between(&old, &with(None)), None);
        let written = StatusWrite::between(&old, &with(Some("Active"))).unwrap();
        assert_eq!(Value::Object(written.patch), json!({"status": {"phase": "Active"}}));
    }

    #[test]
    fn a_status_alone_is_written_as_a_patch_of_its_object() {
        let with = |phase: Option<&str>| {
            let status = NamespaceStatus { phase: phase.map(str::to_owned), ..NamespaceStatus::default() };
            Namespace { status: Some(status), ..Namespace::default() }
        };
        for old in [Namespace::default(), with(None), with(Some("Active")), with(Some("Terminating"))] {
            for phase in [None, Some("Active")] {
                let new = with(phase);
                let after = new.status.as_ref().unwrap();
                let written = StatusWrite::from_status(&old, old.status.as_ref(), after);
                assert_eq!(written, StatusWrite::between(&old, &new), "{:?} {phase:?}", old.status);
            }
        }
    }
}
