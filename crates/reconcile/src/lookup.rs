//! Questions to the API server that users' objects are applied to, and their answers.
//!
//! A plan asks for what it cannot list in advance: how a kind is served, one object of a kind whose other
//! objects do not matter, whether a subject may do something. The dispatcher requests the answer, keeps
//! the answer as long as a plan asks for it, and plans the key again when the answer changes.

use std::fmt::{Display, Formatter};
use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::Value;

use api::pod::{PodFacts, Warning};
use object::{Gvk, Key, Object, ObjectRef};

/// A question to the API server that users' objects are applied to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lookup {
    /// How a kind is served. The dispatcher asks again while the kind is not served.
    Mapping(Gvk),
    /// The kind of a resource, in its version or else in another that the server serves: an object exists in
    /// all of them. The dispatcher asks again while the resource is not served.
    KindFor(Gvr),
    /// An object. The dispatcher watches the metadata of its kind, and reads the object again when it
    /// changes.
    Object(ObjectRef),
    /// Whether the hub has an object now, whichever cluster is observed. The answer expires after a minute.
    OnHub(ObjectRef),
    /// Whether a subject may do something. The answer expires after a minute.
    Access(AccessReview),
    /// Whether the API server is healthy. The answer expires after a minute.
    Health,
    /// The pods that a selector of labels selects in a namespace. The answer expires after five seconds.
    Pods(PodsQuery),
    /// The warnings about the object with a uid, in a namespace. The answer expires after five seconds.
    Warnings {
        /// The namespace.
        namespace: String,
        /// The uid of the object.
        uid: String,
    },
    /// The object that a server-side apply would make of a live one. The answer holds as long as the question is the
    /// same.
    DryRun(DryRun),
}

/// A server-side apply that takes fields by force and writes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DryRun {
    /// The object.
    pub object: ObjectRef,
    /// The manifest, as JSON.
    pub manifest: String,
    /// The field manager. One that owns fields of the object would lose those that the manifest lacks.
    pub manager: String,
    /// The user that the request impersonates; `None` for the process itself.
    pub impersonate: Option<String>,
    /// A digest of the live object. With another one the question is a new one, and is answered anew.
    pub live: String,
}

/// A selection of pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodsQuery {
    /// Their namespace.
    pub namespace: String,
    /// A selector of their labels, which is not empty.
    pub selector: String,
}

/// The answer to a [`Lookup`].
#[derive(Clone, Debug, PartialEq)]
pub enum LookupAnswer {
    /// How a kind or a resource is served; `None` where it is not.
    Mapping(Option<Mapping>),
    /// The object; `None` where it does not exist.
    Object(Option<Arc<Object>>),
    /// Whether the hub has the object.
    OnHub(bool),
    /// Whether the subject is allowed.
    Access(Access),
    /// Whether the API server is healthy.
    Health(ServerHealth),
    /// The pods, as far as they were read.
    Pods(Arc<Vec<PodFacts>>),
    /// The warnings, the newest first.
    Warnings(Vec<Warning>),
    /// The object as it would be.
    DryRun(Arc<Object>),
}

/// The health of an API server, as it says itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerHealth {
    /// The server is healthy.
    Healthy {
        /// Its version, such as `v1.36.0`; empty if it does not tell it.
        version: String,
    },
    /// The server is not healthy, or does not answer; the text says why.
    Unhealthy(String),
}

impl LookupAnswer {
    /// How long an answer about the hub holds: it is used at once.
    pub(crate) const ON_HUB_VALID: SignedDuration = SignedDuration::from_mins(1);
    /// How long an answer about pods holds. No watch tells of their changes, and people see the reason of a
    /// failure within ten seconds.
    pub(crate) const PODS_VALID: SignedDuration = SignedDuration::from_secs(5);
    /// Limit of the pods that an answer is about. A selector that selects more is no reason to read them all.
    pub const MAX_PODS: u32 = 200;
    /// Limit of the warnings that an answer is about.
    pub const MAX_WARNINGS: u32 = 50;

    /// Adds a pod to an answer about pods.
    pub fn add_pod(&mut self, pod: &Value) {
        if let Self::Pods(pods) = self {
            Arc::make_mut(pods).push(PodFacts::read(pod));
        }
    }

    /// Returns the answer that events are.
    pub fn of_events<'a>(events: impl Iterator<Item = &'a Value>) -> Self {
        Self::Warnings(Warning::list(events))
    }
}

impl ServerHealth {
    /// How long an answer holds: the period of the health check of OCM's agent.
    pub(crate) const VALID: SignedDuration = SignedDuration::from_mins(1);
}

/// A resource of an API version, such as `deployments`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gvr {
    /// API group; empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Name in the plural.
    pub resource: String,
}

/// How a kind is served, as the RESTMapping of client-go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The kind.
    pub gvk: Gvk,
    /// The resource in the plural.
    pub resource: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

/// Everything that a subject must be allowed to do with an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccessReview {
    /// User name of the subject.
    pub user: String,
    /// Groups of the subject.
    pub groups: Vec<String>,
    /// The verbs, in the order in which they are asked; the first refusal ends the review.
    pub verbs: Vec<String>,
    /// The resource of the object.
    pub resource: Gvr,
    /// Namespace and name of the object.
    pub key: Key,
}

impl AccessReview {
    /// How long an answer holds. Open Cluster Management tries a refused manifest again after the same time.
    pub(crate) const VALID: jiff::SignedDuration = jiff::SignedDuration::from_secs(60);
}

/// Whether a subject may do everything that an access review asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Every verb is allowed.
    Allowed,
    /// A verb is refused.
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
