//! Sends notifications to their receivers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::failure::failure;
use super::mirrors::Mirrors;
use crate::git::{Error, Receiver, Webhook};
use crate::shell::now;
use api::gitops::v1alpha1::NotificationType;
use object::Key;
use reconcile::{Answer, Failure, Notification, Outcome};

/// The senders of one operator.
pub(super) struct Notifications {
    mirrors: Arc<Mirrors>,
    /// The ID of the last message that a receiver has accepted, by ConfigRepo and name. The hub records it later, and
    /// that write may fail with a conflict.
    accepted: Mutex<BTreeMap<(Key, String), String>>,
}

impl Notifications {
    pub(super) fn new(mirrors: Arc<Mirrors>) -> Self {
        Self { mirrors, accepted: Mutex::default() }
    }

    pub(super) async fn send(&self, notification: Notification) -> Outcome {
        self.send_once(notification, now()).await.map(|()| Answer::Nothing)
    }

    /// Sends a message, unless the receiver has already accepted it from this process.
    async fn send_once(&self, notification: Notification, now: Timestamp) -> Result<(), Failure> {
        let receiver = (notification.repo.clone(), notification.receiver.clone());
        let id = notification.id.clone();
        let accepted = || self.accepted.lock().expect("no task panics while it holds the map");
        if accepted().get(&receiver) != Some(&id) {
            self.try_send(notification, now).await?;
            accepted().insert(receiver, id);
        }
        Ok(())
    }

    async fn try_send(&self, notification: Notification, now: Timestamp) -> Result<(), Failure> {
        let Notification { repo, receiver: _, format, secret, id, state: _, digest: _, body } = notification;
        let refused = |error: Error| failure(&of_address(error, &secret));
        let (content_type, is_signed) = match &format {
            NotificationType::CloudEvents => ("application/cloudevents+json", true),
            NotificationType::Slack => ("application/json", false),
            NotificationType::Other(other) => {
                let reason = format!("the type {other:?} of the receiver is not known");
                return Err(failure(&Error::Credentials(reason)));
            }
        };
        let data = self.mirrors.secrets.read(&secret).await.map_err(refused)?;
        let receiver = Receiver::from_secret(&data).map_err(refused)?;
        self.mirrors.remote(receiver.address().url()).map_err(refused)?;
        let (egress, cancel) = (self.mirrors.egress(), CancellationToken::new());
        let (cancels, message) = (cancel.clone(), Webhook { id, content_type, is_signed, body });
        let sent = move || {
            let sent = receiver.send(&message, egress, cancel, now);
            sent.map_err(|error| (receiver.hide(&error.to_string()), error))
        };
        match self.mirrors.in_place(&repo.namespace, cancels, sent).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err((_, error @ Error::Url(_)))) => Err(refused(error)),
            Ok(Err((message, error))) => Err(Failure { message, ..failure(&error) }),
            Err(error) => Err(failure(&error)),
        }
    }
}

/// Returns the error for an address in a Secret, which is not the URL of a repository.
fn of_address(error: Error, secret: &Key) -> Error {
    match error {
        Error::Url(reason) => {
            let reason = reason.trim_start_matches("invalid repository URL: ");
            Error::Url(format!("the address in the Secret {secret} is refused: {reason}"))
        }
        other => other,
    }
}

#[cfg(test)]
#[path = "tests/notification.rs"]
mod tests;
