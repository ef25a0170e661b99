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

/// Selected clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlacementDecisionStatus {
    /// Selected clusters, at most 100 in one object.
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
    /// Name of the ManagedCluster.
    pub cluster_name: String,
    /// OCM leaves the reason empty, and so does Wheelwright.
    pub reason: String,
    /// Score of the cluster, if the placement sorts its decisions by score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<i64>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
