//! ClusterProfile: a cluster in the inventory of a cluster manager, as defined by [KEP-4322].
//!
//! [KEP-4322]:
//! https://github.com/kubernetes/enhancements/tree/master/keps/sig-multicluster/4322-cluster-inventory

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, Unknown, names};

kind! {
    /// ClusterProfile shows one cluster of a cluster manager to programs that do not know the manager's own
    /// kinds.
    ClusterProfile {
        group: names::cluster_profile::MULTICLUSTER_GROUP,
        version: "v1alpha1",
        plural: "clusterprofiles",
        scope: Namespaced,
        spec(required): ClusterProfileSpec,
        status: ClusterProfileStatus,
    }
}

/// Identity and manager of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterProfileSpec {
    /// Display name of the cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// Cluster manager that writes the profile.
    pub cluster_manager: ClusterProfileManager,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ClusterProfileManager names a cluster manager.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterProfileManager {
    /// Name of the cluster manager.
    pub name: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// State of the cluster. Other clients add access information.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct ClusterProfileStatus {
    /// Conditions of the control plane, and of the join to the hub.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Version of the cluster.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub version: ClusterProfileVersion,
    /// Facts that the cluster reports about itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<ClusterProfileProperty>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ClusterProfileVersion names what a cluster runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterProfileVersion {
    /// Version of Kubernetes, such as v1.34.1.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kubernetes: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ClusterProfileProperty is a fact that a cluster reports about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterProfileProperty {
    /// Name of the property, such as id.k8s.io.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Value of the property.
    #[schemars(length(min = 1, max = 1024))]
    pub value: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
