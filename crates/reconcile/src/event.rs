//! Events for people to read.

use serde::Serialize;

use object::{Key, Kind, Metadata as _, ObjectRef};

/// An event about an object (`events.k8s.io/v1`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Event {
    /// The object that the event is about.
    pub regarding: ObjectRef,
    /// The uid of the object.
    pub uid: String,
    /// A related object, and its uid if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub related: Option<(ObjectRef, String)>,
    /// `Normal` or `Warning`.
    pub event_type: EventType,
    /// The reason, a CamelCase word.
    pub reason: String,
    /// The action, a CamelCase word.
    pub action: String,
    /// The message, a sentence.
    pub message: String,
}

impl Event {
    /// Returns an event about an object. `reason` and `action` are CamelCase words; `message` is a sentence.
    pub fn new<K: Kind>(
        regarding: &K,
        event_type: EventType,
        reason: &str,
        action: &str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            regarding: ObjectRef::of::<K>(Key::of(regarding)),
            uid: regarding.uid().to_owned(),
            related: None,
            event_type,
            reason: reason.into(),
            action: action.into(),
            message: message.into(),
        }
    }

    /// Moves the event to the namespace named like its object, a cluster, because the cluster's agent may only
    /// write there.
    #[must_use]
    pub fn of_cluster(mut self) -> Self {
        self.regarding.key.namespace = self.regarding.key.name.clone();
        self
    }
}

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum EventType {
    /// Something happened as expected.
    Normal,
    /// Something needs attention.
    Warning,
}
