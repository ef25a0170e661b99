//! The last commit status of a ConfigRepo.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Unknown;

/// Last commit status that was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastCommitStatus {
    /// Hash of the commit.
    pub commit: String,
    /// Last state that the provider accepted. Absent if it has accepted none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<CommitState>,
    /// Hash of the provider, the repository and the name of the status.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub destination: String,
    /// Number of states that the provider has accepted for the commit.
    #[serde(default)]
    pub sent: i32,
    /// Time of the last attempt.
    #[serde(
        deserialize_with = "crate::lenient::optional_time",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub time: Option<Time>,
    /// Error that prevented the newest state from being set. Empty if it was set.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// State of a commit, with the names of GitHub and Gitea.
    pub enum CommitState {
        /// The commit is not on the hub or not on all clusters yet.
        Pending = "pending",
        /// The hub and all clusters match the commit.
        Success = "success",
        /// The hub refused the commit, or it failed on a cluster.
        Failure = "failure",
    }
}
