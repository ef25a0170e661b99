//! The receivers of notifications about a ConfigRepo, and what each accepted last.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SecretRef;
use crate::Unknown;

/// A receiver of notifications.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotificationReceiver {
    /// Name of the receiver, shown in messages.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Format of the messages. `CloudEvents`: signed CloudEvents in JSON. `Slack`: messages for incoming webhooks of Slack
    /// and compatible chats.
    pub r#type: NotificationType,
    /// Secret in the same namespace with `address`, the URL of the receiver. For `CloudEvents`, it also has `key`, which is
    /// `whsec_` and at least 24 bytes in Base64. It can also contain `ca.crt`, `tls.crt` and `tls.key`, and `proxy`.
    pub secret_ref: SecretRef,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Last notification to a receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastNotification {
    /// Name of the receiver.
    pub name: String,
    /// Last state that the receiver accepted. Absent if it has accepted none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<NotifiedState>,
    /// Hash of the state with its details, such as the rejected commit. Empty if the ConfigRepo has recovered.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// Number of messages that the receiver has accepted.
    #[serde(default)]
    pub sent: i32,
    /// Time of the last attempt.
    #[serde(
        deserialize_with = "crate::lenient::optional_time",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub time: Option<Time>,
    /// Number of failed attempts since the last message that was accepted.
    #[serde(default)]
    pub failures: i32,
    /// Error of the last attempt. Empty if it succeeded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// Format of notifications.
    pub enum NotificationType {
        /// CloudEvents in JSON, signed as Standard Webhooks.
        CloudEvents = "CloudEvents",
        /// Messages for incoming webhooks of Slack and compatible chats.
        Slack = "Slack",
    }
}

open_enum! {
    /// State of a ConfigRepo for people on call.
    pub enum NotifiedState {
        /// It no longer needs a person.
        Recovered = "Recovered",
        /// It waits for a person, such as after a rejected commit.
        Stalled = "Stalled",
        /// It or a rollout waits for an approval.
        ApprovalNeeded = "ApprovalNeeded",
        /// The git server has not responded for a while.
        Unreachable = "Unreachable",
        /// A workload failed on a cluster.
        RolloutFailed = "RolloutFailed",
        /// A failed revision is quarantined.
        RolledBack = "RolledBack",
    }
}
