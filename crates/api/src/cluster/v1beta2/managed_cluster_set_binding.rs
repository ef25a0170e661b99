//! ManagedClusterSetBinding: lets the placements of a namespace select from a cluster set.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, Unknown, names};

kind! {
    /// Lets the placements of a namespace use the clusters of a set. It bears the name of the set.
    ManagedClusterSetBinding {
        group: names::CLUSTER_GROUP,
        version: "v1beta2",
        plural: "managedclustersetbindings",
        scope: Namespaced,
        spec: ManagedClusterSetBindingSpec,
        status: ManagedClusterSetBindingStatus,
        short: ["mclsetbinding", "mclsetbindings"],
    }
}

/// Which set is bound.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSetBindingSpec {
    /// Name of the set; the same as the name of the binding.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1))]
    pub cluster_set: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// What was observed of a binding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ManagedClusterSetBindingStatus {
    /// Whether the set exists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
