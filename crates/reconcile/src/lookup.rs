//! Requests to the API server that users' objects are applied to, and their answers.
//!
//! A plan looks up what it cannot list in advance: how a kind is served, a single object of a kind, or whether a
//! subject has access. The dispatcher sends the request, keeps the answer as long as a plan requests it, and plans
//! the key again when the answer changes.

use std::fmt::{Display, Formatter};
use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::Value;

use api::pod::{PodFacts, Warning};
use object::{Gvk, Key, Object, ObjectRef};

/// A request to the API server that users' objects are applied to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lookup {
    /// Discovers how a kind is served. The dispatcher asks again while the kind is not served.
    Mapping(Gvk),
    /// The kind of a resource, in the given version or any other that the server serves, because an object exists
    /// in all versions. The dispatcher asks again while the resource is not served.
    KindFor(Gvr),
    /// An object. The dispatcher watches the metadata of its kind, and reads the object again when it changes.
    Object(ObjectRef),
    /// Checks whether the hub has an object now, even if the observed cluster is a spoke. The answer expires after
    /// a minute.
    OnHub(ObjectRef),
    /// Checks whether a subject may do something. The answer expires after a minute.
    Access(AccessReview),
    /// Checks whether the API server is healthy. The answer expires after a minute.
    Health,
    /// The pods that match a label selector in a namespace. The answer expires after five seconds.
    Pods(PodsQuery),
    /// The warning events about the object with a uid, in a namespace. The answer expires after five seconds.
    Warnings {
        /// The namespace of the events.
        namespace: String,
        /// The uid of the object.
        uid: String,
    },
    /// The result of a server-side apply to a live object. The answer remains valid for the same request.
    DryRun(DryRun),
}

/// A server-side apply in dry-run mode that forces conflicts.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DryRun {
    /// The object to apply, which exists already.
    pub object: ObjectRef,
    /// The manifest, as JSON.
    pub manifest: String,
    /// The field manager. If it already owned fields of the object, those missing from the manifest would be
    /// removed.
    pub manager: String,
    /// The user that the request impersonates; `None` for the process itself.
    pub impersonate: Option<String>,
    /// A digest of the live object, so that a changed object makes a new request.
    pub live: String,
}

/// A selection of pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodsQuery {
    /// The namespace of the pods.
    pub namespace: String,
    /// A non-empty label selector.
    pub selector: String,
}

/// The answer to a [`Lookup`].
#[derive(Clone, Debug, PartialEq)]
pub enum LookupAnswer {
    /// The mapping of a kind or a resource; `None` if it is not served.
    Mapping(Option<Mapping>),
    /// The object; `None` if it does not exist.
    Object(Option<Arc<Object>>),
    /// True if the hub has the object.
    OnHub(bool),
    /// The access of the subject.
    Access(Access),
    /// The health of the API server.
    Health(ServerHealth),
    /// The pods, up to [`MAX_PODS`](Self::MAX_PODS).
    Pods(Arc<Vec<PodFacts>>),
    /// The warnings, newest first.
    Warnings(Vec<Warning>),
    /// The resulting object.
    DryRun(Arc<Object>),
}

/// The health that an API server reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerHealth {
    /// The server is healthy.
    Healthy {
        /// The version, such as `v1.36.0`; empty if unknown.
        version: String,
    },
    /// The server is unhealthy or does not respond, for this reason.
    Unhealthy(String),
}

impl LookupAnswer {
    /// The time that an answer about the hub remains valid. Plans use it at once.
    pub(crate) const ON_HUB_VALID: SignedDuration = SignedDuration::from_mins(1);
    /// The time that an answer about pods remains valid. No watch reports their changes, and people should see the
    /// reason of a failure within ten seconds.
    pub(crate) const PODS_VALID: SignedDuration = SignedDuration::from_secs(5);
    /// The maximum number of pods in an answer. A selector that matches more does not make us read them all.
    pub const MAX_PODS: u32 = 200;
    /// The maximum number of warnings in an answer.
    pub const MAX_WARNINGS: u32 = 50;

    /// Adds a pod to an answer about pods.
    pub fn add_pod(&mut self, pod: &Value) {
        if let Self::Pods(pods) = self {
            Arc::make_mut(pods).push(PodFacts::read(pod));
        }
    }

    /// Returns the answer for a list of events.
    pub fn from_events<'a>(events: impl Iterator<Item = &'a Value>) -> Self {
        Self::Warnings(Warning::list(events))
    }
}

impl ServerHealth {
    /// The time that an answer remains valid: the period of the health check in OCM's agent.
    pub(crate) const VALID: SignedDuration = SignedDuration::from_mins(1);
}

/// A resource in an API version, such as `deployments`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gvr {
    /// The API group; empty for the core group.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The plural name.
    pub resource: String,
}

/// The resource that serves a kind, like client-go's RESTMapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The group, version and kind.
    pub gvk: Gvk,
    /// The plural name of the resource.
    pub resource: String,
    /// True if its objects are namespaced.
    pub namespaced: bool,
}

/// Everything that a subject must be allowed to do with an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccessReview {
    /// The user name of the subject.
    pub user: String,
    /// The groups of the subject.
    pub groups: Vec<String>,
    /// The verbs, in the order of their checks. The first refusal ends the review.
    pub verbs: Vec<String>,
    /// The resource of the object.
    pub resource: Gvr,
    /// The namespace and name of the object.
    pub key: Key,
}

impl AccessReview {
    /// The time that an answer remains valid. OCM retries a refused manifest after the same time.
    pub(crate) const VALID: jiff::SignedDuration = jiff::SignedDuration::from_secs(60);
}

/// The result of an access review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Every verb is allowed.
    Allowed,
    /// At least one verb is refused.
    Denied,
}

impl Lookup {
    /// Returns the API group of a lookup about discovery.
    pub(crate) fn discovered_group(&self) -> Option<&str> {
        match self {
            Self::Mapping(gvk) => Some(&gvk.group),
            Self::KindFor(gvr) => Some(&gvr.group),
            Self::Object(_)
            | Self::OnHub(_)
            | Self::Access(_)
            | Self::Health
            | Self::Pods(_)
            | Self::Warnings { .. }
            | Self::DryRun(_) => None,
        }
    }
}

impl Display for Lookup {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Mapping(gvk) => write!(f, "the resource of {gvk}"),
            Self::KindFor(Gvr { group, version, resource }) => {
                write!(f, "the kind of {resource}.{version}.{group}")
            }
            Self::Object(object) | Self::OnHub(object) => write!(f, "{object}"),
            Self::Access(AccessReview { user, resource, key, .. }) => {
                write!(f, "the permissions of {user} on {} {key}", resource.resource)
            }
            Self::Health => write!(f, "the health of the API server"),
            Self::Pods(PodsQuery { namespace, selector }) => {
                write!(f, "the pods {selector} of namespace {namespace}")
            }
            Self::Warnings { namespace, uid } => {
                write!(f, "the warnings about {uid} of namespace {namespace}")
            }
            Self::DryRun(DryRun { object, .. }) => write!(f, "the dry run of {object}"),
        }
    }
}
