//! The status of a RolloutPolicy.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster::v1alpha1::RolloutStrategy;
use crate::{Condition, Unknown};

/// State of the rollouts that the policy applies to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutPolicyStatus {
    /// The `metadata.generation` that the status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions of the policy. They show if it can be read, which rules it contributes, and if something
    /// waits for an approval.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Rollouts that are recorded in this policy. If several policies apply to a rollout, one of them records
    /// it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["addOn", "replicaSet", "placementNamespace", "placementName"]))]
    pub rollouts: Vec<RolloutStatus>,
    /// Add-ons that clusters lost within `removalWindow`, or whose removal waits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["addOn"]))]
    pub removals: Vec<RemovalStatus>,
    /// Add-ons that the API server refuses to create on clusters, up to 500.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["addOn", "cluster"]))]
    pub refused: Vec<RefusedAddOn>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Rollout of an add-on or a ManifestWorkReplicaSet on the clusters of a placement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// Name of the add-on. Empty for a set.
    pub add_on: String,
    /// ManifestWorkReplicaSet, as `NAMESPACE/NAME`. Empty for an add-on.
    #[serde(default)]
    pub replica_set: String,
    /// Namespace of the placement.
    pub placement_namespace: String,
    /// Name of the placement.
    pub placement_name: String,
    /// Hash of the revision that is rolled out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// Last valid strategy of the add-on. It stays in force while the strategy of the placement is invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<RolloutStrategy>,
    /// Hash of the last revision that succeeded on all clusters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_good: String,
    /// Hash of the revision in quarantine. It is not rolled out again until it is released or another
    /// revision follows.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub quarantined: String,
    /// First cluster on which the quarantined revision failed, and its report.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub failure: String,
    /// Time since which more clusters have failed than the strategy tolerates, if some of them are only late.
    /// If they do not report in time, `revision` is quarantined.
    #[serde(
        deserialize_with = "crate::lenient::optional_time",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub late_since: Option<Time>,
    /// Clusters that lost a work of the set within `removalWindow` without an approval. The removals of an
    /// add-on are in `removals`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["cluster"]))]
    pub recent_removals: Vec<RecentRemoval>,
    /// Reason that no cluster starts, and its end if known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hold: String,
    /// Tokens that wait for an approval. To approve one, add it to `spec.approved`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub waiting_approvals: Vec<String>,
    /// Number of clusters in each state.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub counts: RolloutCounts,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Removal of an add-on from clusters that no placement selects any longer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemovalStatus {
    /// Name of the add-on.
    pub add_on: String,
    /// Number of clusters that keep the add-on until a person approves the removal or the window has passed.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub held: i32,
    /// Token that approves the removal. To approve it, add the token to `spec.approved`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub approval: String,
    /// Clusters that lost the add-on within `removalWindow` without an approval.
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
    /// Time of the removal.
    #[serde(deserialize_with = "crate::lenient::time")]
    pub time: Time,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// An add-on that the API server refuses to create on a cluster, for example because of an admission webhook
/// or a quota.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefusedAddOn {
    /// Name of the add-on.
    pub add_on: String,
    /// Name of the cluster.
    pub cluster: String,
    /// Time since which the API server refuses the add-on.
    #[serde(deserialize_with = "crate::lenient::time")]
    pub since: Time,
    /// Time of the last attempt. The operator tries again, finally once a minute, until the add-on is
    /// created.
    #[serde(deserialize_with = "crate::lenient::time")]
    pub tried: Time,
    /// First answer of the API server.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Hash of the revision for which it was last the turn of the cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// Start of that turn. The deadline of the cluster counts from then.
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

/// Number of clusters in each state of a rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutCounts {
    /// All clusters.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub total: i32,
    /// Clusters that run the revision and have succeeded.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub done: i32,
    /// Clusters that have succeeded and whose soak time is not over.
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
    /// Clusters that did not succeed before their deadline.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub timed_out: i32,
    /// Clusters that do not respond.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub unreachable: i32,
    /// Clusters whose revision is quarantined, and that return to another one.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub returning: i32,
    /// Clusters whose revision is quarantined, and that run another one successfully.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub returned: i32,
    /// Clusters whose revision is quarantined, and on which nothing succeeded before. They keep what they
    /// run.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub quarantined: i32,
    /// Clusters that the rollout does not change.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub skipped: i32,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
