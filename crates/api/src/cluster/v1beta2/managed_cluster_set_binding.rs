//! ManagedClusterSetBinding: lets the placements of a namespace select from a cluster set.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, Unknown, names};

kind! {
    /// ManagedClusterSetBinding lets the placements of its namespace use the clusters of a set. It has the
    /// name of the set.
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

impl ManagedClusterSetBinding {
    /// Returns the bound set, or None if the name of the binding differs from the set in the spec. OCM's admission
    /// rejects such a binding.
    ///
    /// The permission `managedclustersets/bind` was checked for the set in the spec, but placements find sets by
    /// the names of bindings. A binding that bypassed admission with two different names therefore binds neither
    /// set.
    pub fn cluster_set(&self) -> Option<&str> {
        let ManagedClusterSetBindingSpec { cluster_set: name, unknown: _ } = &self.spec;
        (self.metadata.name.as_deref() == Some(name)).then_some(name)
    }
}

/// Bound set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSetBindingSpec {
    /// Name of the ManagedClusterSet. It must be the name of the binding. Creating the binding needs the
    /// permission `managedclustersets/bind`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1))]
    pub cluster_set: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// State of the binding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ManagedClusterSetBindingStatus {
    /// The condition `Bound` is true if the set exists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_that_is_not_named_after_its_set_binds_no_set() {
        let bound = |name: &str| {
            let binding = serde_json::json!({"metadata": {"name": name}, "spec": {"clusterSet": "blue"}});
            let binding: ManagedClusterSetBinding = serde_json::from_value(binding).unwrap();
            binding.cluster_set().map(str::to_owned)
        };
        assert_eq!((bound("blue").as_deref(), bound("green")), (Some("blue"), None));
    }
}
