//! Messages to receivers of notifications, as data.

use serde::Serialize;

use api::gitops::v1alpha1::{NotificationType, NotifiedState};
use object::Key;

/// A message about a `ConfigRepo` to one receiver. The address is in a Secret, so only the executor reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notification {
    /// The `ConfigRepo` it is about.
    pub repo: Key,
    /// The name of the receiver.
    pub receiver: String,
    /// The format of the body.
    pub format: NotificationType,
    /// The Secret with the address and the key.
    pub secret: Key,
    /// The ID of the message. A message that is sent again has the same ID.
    pub id: String,
    /// The state that the message reports.
    pub state: NotifiedState,
    /// The hash of the state with its details.
    pub digest: String,
    /// The body of the request.
    pub body: String,
}
