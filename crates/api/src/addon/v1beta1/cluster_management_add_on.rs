//! ClusterManagementAddOn in v1beta1.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::addon::v1alpha1::{AddOnMeta, DefaultConfigReference, InstallProgression, InstallStrategy};
use crate::{Unknown, names};

kind! {
    /// ClusterManagementAddOn is an add-on that the hub offers, with its configurations and the clusters that get
    /// it.
    ClusterManagementAddOn {
        group: names::ADDON_GROUP,
        version: "v1beta1",
        plural: "clustermanagementaddons",
        scope: Cluster,
        spec(required): ClusterManagementAddOnSpec,
        status: ClusterManagementAddOnStatus,
        short: ["cma", "cmas"],
        columns: [("DISPLAY NAME", "string", ".spec.addOnMeta.displayName")],
    }
}

/// Description of the add-on, and the clusters that get it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterManagementAddOnSpec {
    /// Display name and description of the add-on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on_meta: Option<AddOnMeta>,
    /// Kinds of configuration that the add-on supports, with optional defaults.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["group", "resource"]))]
    pub default_configs: Vec<DefaultConfig>,
    /// Clusters that get the add-on.
    #[serde(default)]
    #[schemars(extend("default" = {"type": "Manual"}))]
    pub install_strategy: InstallStrategy,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// DefaultConfig is a kind of configuration that the add-on takes, with its default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DefaultConfig {
    /// API group of the configuration. Empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Plural resource name of the configuration, such as addondeploymentconfigs.
    #[schemars(length(min = 1))]
    pub resource: String,
    /// Namespace of the configuration. Empty for cluster-scoped kinds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the default configuration. It is `__reserved_no_default__` when the kind has no default.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Progress of the rollout of the add-on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterManagementAddOnStatus {
    /// Default configurations with the hashes of their content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub default_config_references: Vec<DefaultConfigReference>,
    /// Progress on each placement of the strategy, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub install_progressions: Vec<InstallProgression>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
