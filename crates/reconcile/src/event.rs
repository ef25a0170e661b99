//! Events, for people.

use serde::Serialize;

use object::{Key, Kind, Metadata as _, ObjectRef};

/// An event about an object (`events.k8s.io/v1`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Event {
    /// The object the event is about.
    pub regarding: ObjectRef,
    /// Its uid.
    pub uid: String,
    /// A related object, and its uid if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub related: Option<(ObjectRef, String)>,
    /// Normal or Warning.
    pub event_type: EventType,
    /// Reason: a CamelCase word.
    pub reason: String,
    /// Action: a CamelCase word.
    pub action: String,
    /// A sentence.
    pub message: String,
}

impl Event {
    /// Returns an event about an object. Reason and action are CamelCase words, the message is a sentence.
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

    /// Returns the event in the namespace that is named like its object, a cluster: the agent of the
    /// cluster may write there only.
    #[must_use]
    pub fn of_cluster(mut self) -> Self {
        self.regarding.key.namespace = self.regarding.key.name.clone();
        self
    }
}

/// `type` of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum EventType {
    /// Something happened as expected.
    Normal,
    /// Something needs the attention of a person.
    Warning,
}
