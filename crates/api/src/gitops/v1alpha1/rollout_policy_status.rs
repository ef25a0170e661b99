//! The status of a RolloutPolicy.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster::v1alpha1::RolloutStrategy;
use crate::{Condition, Unknown};

/// The state of the rollouts under the policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutPolicyStatus {
    /// The metadata.generation the status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Whether the policy can be read, what it contributes to the rules in force, and whether something waits
    /// for a person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The rollouts under the policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["addOn", "replicaSet", "placementNamespace", "placementName"]))]
    pub rollouts: Vec<RolloutStatus>,
    /// Add-ons that clusters lost within the window, or that wait to be removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["addOn"]))]
    pub removals: Vec<RemovalStatus>,
    /// Add-ons that the API server refuses to create on clusters; at most 500.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["addOn", "cluster"]))]
    pub refused: Vec<RefusedAddOn>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// One rollout: an add-on or a ManifestWorkReplicaSet on the clusters of a placement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// Name of the add-on; empty in the rollout of a set.
    pub add_on: String,
    /// The ManifestWorkReplicaSet as NAMESPACE/NAME; empty in the rollout of an add-on.
    #[serde(default)]
    pub replica_set: String,
    /// Namespace of the placement.
    pub placement_namespace: String,
    /// Name of the placement.
    pub placement_name: String,
    /// Hash of the revision that is rolled out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// The last strategy of the add-on that is valid. It stays in force while that of the placement is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<RolloutStrategy>,
    /// Hash of the last revision that succeeded everywhere.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_good: String,
    /// Hash that failed and is not rolled out again until it is released or another one comes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub quarantined: String,
    /// The first cluster on which the quarantined hash failed, and its report.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub failure: String,
    /// Since when more clusters than are tolerated have failed, where some of them are only late and may
    /// still report. When they had the time to, `revision` is quarantined.
    #[serde(
        deserialize_with = "crate::lenient::optional_time",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub late_since: Option<Time>,
    /// The clusters that lost a work of the set within the window without an approval. Those of an add-on are
    /// in `removals`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["cluster"]))]
    pub recent_removals: Vec<RecentRemoval>,
    /// The reason why nothing more is started, and the time until which that holds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hold: String,
    /// Tokens that wait for a person; to approve one, add it to spec.approved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub waiting_approvals: Vec<String>,
    /// Number of clusters by state.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub counts: RolloutCounts,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// The removal of an add-on from clusters that no placement selects any more.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemovalStatus {
    /// Name of the add-on.
    pub add_on: String,
    /// Number of clusters that keep it until a person approves or the window has passed.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub held: i32,
    /// The token that approves their removal; add it to spec.approved.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub approval: String,
    /// The clusters that lost it within the window without an approval.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["cluster"]))]
    pub recent: Vec<RecentRemoval>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A cluster that lost an add-on, or a work of a set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecentRemoval {
    /// Name of the cluster.
    pub cluster: String,
    /// When.
    #[serde(deserialize_with = "crate::lenient::time")]
    pub time: Time,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// An add-on that the API server refuses to create on a cluster, as with an admission webhook or a quota.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefusedAddOn {
    /// Name of the add-on.
    pub add_on: String,
    /// Name of the cluster.
    pub cluster: String,
    /// Since when the API server refuses it.
    #[serde(deserialize_with = "crate::lenient::time")]
    pub since: Time,
    /// When it was refused last. It is tried again until it is created, each minute at last.
    #[serde(deserialize_with = "crate::lenient::time")]
    pub tried: Time,
    /// The first answer of the API server.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Hash of the revision for which the turn of the cluster came last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// When that turn came. The deadline of the cluster counts from then.
    #[serde(
        deserialize_with = "crate::lenient::optional_time",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub turn: Option<Time>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Number of clusters by state of the rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutCounts {
    /// All clusters.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub total: i32,
    /// Clusters that run the revision and succeeded.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub done: i32,
    /// Clusters that succeeded and have not soaked for long enough.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub soaking: i32,
    /// Clusters that get the revision or have it, without an outcome.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub progressing: i32,
    /// Clusters that wait for their turn.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub waiting: i32,
    /// Clusters that failed.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub failed: i32,
    /// Clusters that had no success before their deadline.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub timed_out: i32,
    /// Clusters that do not answer.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub unreachable: i32,
    /// Clusters whose revision is quarantined, and that are returning to another one.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub returning: i32,
    /// Clusters whose revision is quarantined, and that run another one with success.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub returned: i32,
    /// Clusters whose revision is quarantined, and on which nothing succeeded before.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub quarantined: i32,
    /// Clusters that are left alone.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub skipped: i32,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
