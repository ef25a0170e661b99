//! PlacementDecision: a page of the clusters that a Placement selects.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Unknown, names};

kind! {
    /// PlacementDecision lists clusters that a placement selected: one decision group, or a part of it.
    ///
    /// Labels name the placement and the group.
    PlacementDecision {
        group: names::CLUSTER_GROUP,
        version: "v1beta1",
        plural: "placementdecisions",
        scope: Namespaced,
        status: PlacementDecisionStatus,
    }
}

/// The status lists the selected clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlacementDecisionStatus {
    /// Each entry is a selected cluster. One object holds at most 100 of them.
    pub decisions: Vec<ClusterDecision>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ClusterDecision is one selected cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDecision {
    /// This is the name of the ManagedCluster.
    pub cluster_name: String,
    /// OCM leaves the reason empty, and so does Wheelwright.
    pub reason: String,
    /// The score is written when the placement sorts its decisions by score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<i64>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
