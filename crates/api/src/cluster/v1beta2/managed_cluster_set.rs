//! ManagedClusterSet: a group of clusters.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, Unknown, names};

kind! {
    /// A set of clusters that belong together, such as those of one team or one cloud.
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

/// Which clusters are in a set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("default" = {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}}))]
pub struct ManagedClusterSetSpec {
    /// What makes a cluster a member.
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

/// What makes a cluster a member of a set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["selectorType"]))]
pub struct ClusterSelector {
    /// Which of the two ways counts.
    #[serde(default)]
    pub selector_type: SelectorType,
    /// Labels of the members, for the type LabelSelector; absent selects nothing, empty selects every
    /// cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub label_selector: Option<LabelSelector>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// How the members of a set are found.
    pub enum SelectorType {
        /// By the label that names the set; a cluster is in one such set at most.
        ExclusiveClusterSetLabel = "ExclusiveClusterSetLabel",
        /// By any labels; a cluster may be in many such sets.
        LabelSelector = "LabelSelector",
    }
}

/// A namespace to create on every member.
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

/// What was observed of a set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ManagedClusterSetStatus {
    /// Whether the set is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
