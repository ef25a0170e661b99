//! ManifestWorkReplicaSet: one ManifestWork on each of the clusters that placements select.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster::v1alpha1::RolloutStrategy;
use crate::work::v1::ManifestWorkSpec;
use crate::{Condition, Unknown, names};

kind! {
    /// ManifestWorkReplicaSet creates the same work for every cluster of its placements.
    ManifestWorkReplicaSet {
        group: names::WORK_GROUP,
        version: "v1alpha1",
        plural: "manifestworkreplicasets",
        scope: Namespaced,
        spec: ManifestWorkReplicaSetSpec,
        status: ManifestWorkReplicaSetStatus,
        short: ["mwrs"],
        columns: [
            ("Placement", "string", ".status.conditions[?(@.type==\"PlacementVerified\")].reason"),
            ("Found", "string", ".status.conditions[?(@.type==\"PlacementVerified\")].status"),
            ("ManifestWorks", "string", ".status.conditions[?(@.type==\"ManifestworkApplied\")].reason"),
            ("Applied", "string", ".status.conditions[?(@.type==\"ManifestworkApplied\")].status"),
        ],
    }
}

/// Template of the works, and the placements that select the clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkReplicaSetSpec {
    /// The spec of the work on each cluster.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub manifest_work_template: ManifestWorkSpec,
    /// The placements whose clusters get a work.
    #[schemars(length(min = 1))]
    pub placement_refs: Vec<LocalPlacementReference>,
    /// The order in which the set and its works are deleted.
    #[serde(default)]
    pub cascade_deletion_policy: CascadeDeletionPolicy,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A placement of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalPlacementReference {
    /// Name of the placement.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Order and speed at which a change reaches the clusters.
    #[serde(default)]
    #[schemars(extend("default" = {"type": "All", "all": {"progressDeadline": "None"}}))]
    pub rollout_strategy: RolloutStrategy,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// The order in which a set and its works are deleted.
    pub enum CascadeDeletionPolicy {
        /// The set goes at once, the works after it.
        Background = "Background",
        /// The set goes when the works are gone.
        Foreground = "Foreground",
    }
}

/// The observed state of the works.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkReplicaSetStatus {
    /// Conditions of the set: whether the placements exist, the rollout is over and the works are applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Counts over all placements.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub summary: ManifestWorkReplicaSetSummary,
    /// Counts by placement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placement_summary: Vec<PlacementSummary>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// The number of works in each state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkReplicaSetSummary {
    /// Number of existing works.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub total: i64,
    /// Number of works in progress.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub progressing: i64,
    /// Number of works whose objects exist.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub available: i64,
    /// Number of degraded works.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub degraded: i64,
    /// Number of applied works.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub applied: i64,
    /// Number of desired works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_total: Option<i64>,
    /// Number of works with the newest template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated: Option<i64>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Counts of one placement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementSummary {
    /// Name of the placement.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Number of decision groups and clusters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub available_decision_groups: String,
    /// Counts of the placement.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub summary: ManifestWorkReplicaSetSummary,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
