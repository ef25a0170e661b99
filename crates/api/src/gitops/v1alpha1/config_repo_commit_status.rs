//! The last commit status of a ConfigRepo.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Unknown;

/// The last commit status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastCommitStatus {
    /// Name of the commit.
    pub commit: String,
    /// The state that the provider has taken; absent if it has taken none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<CommitState>,
    /// Hash of the provider, the repository and the context.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub destination: String,
    /// Number of states that the provider has taken for the commit.
    #[serde(default)]
    pub sent: i32,
    /// Time of the last attempt.
    #[serde(
        deserialize_with = "crate::lenient::optional_time",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub time: Option<Time>,
    /// The reason why the newest state could not be set; empty if it was.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// The state of a commit, in the words of GitHub and Gitea.
    pub enum CommitState {
        /// The commit is not on the hub and its clusters yet.
        Pending = "pending",
        /// The hub and all clusters are as the commit says.
        Success = "success",
        /// The commit is refused, or failed on a cluster.
        Failure = "failure",
    }
}
