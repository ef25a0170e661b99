//! PlacementDecision: a page of the clusters that a Placement selects.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Unknown, names};

kind! {
    /// Clusters a placement selected: one decision group, or a part of it.
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

/// The clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlacementDecisionStatus {
    /// The clusters, at most 100 by convention.
    pub decisions: Vec<ClusterDecision>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// One selected cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDecision {
    /// Name of the cluster.
    pub cluster_name: String,
    /// Why it was selected; empty by convention.
    pub reason: String,
    /// Its score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<i64>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
