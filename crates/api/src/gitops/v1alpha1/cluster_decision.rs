//! ClusterDecision: the clusters of a placement, for the ApplicationSets of Argo CD.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Unknown, names};

kind! {
    /// Clusters of the Placement with the same name, for ApplicationSets of Argo CD. An annotation of the
    /// Placement requests it. Only the operator writes it.
    ///
    /// The cluster decision resource generator of an ApplicationSet reads it like a PlacementDecision. All
    /// clusters are in one object that is written at once, so the list is never incomplete.
    ClusterDecision {
        group: names::GITOPS_GROUP,
        version: "v1alpha1",
        plural: "clusterdecisions",
        scope: Namespaced,
        status(inline): ClusterDecisionStatus,
        columns: [
            ("Clusters", "integer", ".status.clusters"),
            ("Held", "integer", ".status.held.total"),
            ("Age", "date", ".metadata.creationTimestamp"),
        ],
    }
}

/// Clusters of a Placement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDecisionStatus {
    /// One map for each cluster, sorted by the name of the cluster. `clusterName` is the name. `group` and
    /// `wave` are the name and the index of its decision group. `revision` is the commit of the ConfigRepo
    /// that applies the Placement. `labels.NAME` and `claims.NAME` are the labels and claims that the
    /// annotation of the Placement names and the cluster has.
    #[schemars(length(max = 5000), extend("x-kubernetes-list-type" = "atomic"))]
    pub decisions: Vec<BTreeMap<String, String>>,
    /// Number of clusters in the list.
    #[serde(default)]
    pub clusters: i32,
    /// Clusters that the Placement no longer selects, and that stay in the list until a person approves their
    /// removal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldDecisions>,
    /// Last approval that was used. The value of the next one depends on it, so that each approval counts
    /// once.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_approval: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Removals from the list that wait for an approval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeldDecisions {
    /// Value of the annotation `gitops.wheelwright.dev/approve-deletions` of the Placement that approves
    /// exactly these removals.
    pub approval: String,
    /// Number of clusters that wait for removal.
    pub total: i32,
    /// First of these clusters, up to 10.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<String>,
    /// Reason for the wait.
    pub message: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
