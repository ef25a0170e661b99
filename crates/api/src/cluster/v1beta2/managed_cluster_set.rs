//! ManagedClusterSet: a group of clusters.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, Unknown, names};

kind! {
    /// ManagedClusterSet is a set of clusters that belong together, such as the clusters of one team or one cloud.
    ManagedClusterSet {
        group: names::CLUSTER_GROUP,
        version: "v1beta2",
        plural: "managedclustersets",
        scope: Cluster,
        spec: ManagedClusterSetSpec,
        status: ManagedClusterSetStatus,
        short: ["mclset", "mclsets"],
        columns: [
            ("Empty", "string", ".status.conditions[?(@.type==\"ClusterSetEmpty\")].status"),
            ("Age", "date", ".metadata.creationTimestamp"),
        ],
    }
}

/// Members of the set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("default" = {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}}))]
pub struct ManagedClusterSetSpec {
    /// Selector of the members.
    #[serde(default)]
    #[schemars(extend("default" = {"selectorType": "ExclusiveClusterSetLabel"}))]
    pub cluster_selector: ClusterSelector,
    /// Namespaces to create on every member.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub managed_namespaces: Vec<ManagedNamespace>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ClusterSelector says which clusters are members of a set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["selectorType"]))]
pub struct ClusterSelector {
    /// Way in which members are selected. Default: ExclusiveClusterSetLabel.
    #[serde(default)]
    pub selector_type: SelectorType,
    /// Selector of the members, for the type LabelSelector. If absent, no cluster matches. If empty, every cluster
    /// matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub label_selector: Option<LabelSelector>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// The type says how the members of a set are found.
    pub enum SelectorType {
        /// Members carry the label `cluster.open-cluster-management.io/clusterset` with the name of the set.
        /// So a cluster is in at most one such set.
        ExclusiveClusterSetLabel = "ExclusiveClusterSetLabel",
        /// Members match the label selector. A cluster may be in many such sets.
        LabelSelector = "LabelSelector",
    }
}

/// ManagedNamespace is a namespace that is wanted on every member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ManagedNamespace {
    /// Name of the namespace.
    #[schemars(length(min = 1, max = 63), extend("pattern" = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// State of the set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ManagedClusterSetStatus {
    /// The condition `ClusterSetEmpty` is true if the set has no members.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
