//! ClusterDecision: the clusters of a placement, for the ApplicationSets of Argo CD.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Unknown, names};

kind! {
    /// The clusters of the Placement of the same name, with what is known of each. The operator writes it; an
    /// annotation of the Placement asks for it.
    ///
    /// The cluster decision resource generator of an ApplicationSet reads it, as it reads PlacementDecisions.
    /// All clusters stand in one object that is written in one write, so no list is ever partial.
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

/// The clusters of a placement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDecisionStatus {
    /// A map for each cluster, by name: `clusterName`; `group` and `wave`, the name and the index of its
    /// decision group; `revision`, the commit of the ConfigRepo that applies the Placement; and `labels.NAME`
    /// and `claims.NAME` for each label and claim that the annotation of the Placement names and the cluster
    /// has.
    #[schemars(length(max = 5000), extend("x-kubernetes-list-type" = "atomic"))]
    pub decisions: Vec<BTreeMap<String, String>>,
    /// Number of clusters in the list.
    #[serde(default)]
    pub clusters: i32,
    /// Clusters that the placement does not select any more and that stay in the list until a person
    /// approves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldDecisions>,
    /// The approval that was used last. The value of the next one depends on it, so that none counts twice.
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
    /// The value of the annotation gitops.wheelwright.dev/approve-deletions of the Placement that approves
    /// exactly these.
    pub approval: String,
    /// Number of clusters.
    pub total: i32,
    /// The first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<String>,
    /// The reason why they wait.
    pub message: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
