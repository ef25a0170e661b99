//! ClusterManagementAddOn in v1beta1.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::addon::v1alpha1::{AddOnMeta, DefaultConfigReference, InstallProgression, InstallStrategy};
use crate::{Unknown, names};

kind! {
    /// An add-on as the hub offers it: its configurations, and the clusters it goes to.
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

/// What an add-on is, and where it goes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterManagementAddOnSpec {
    /// What people read of the add-on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on_meta: Option<AddOnMeta>,
    /// The kinds of configuration the add-on takes, each with its default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["group", "resource"]))]
    pub default_configs: Vec<DefaultConfig>,
    /// Which clusters get the add-on.
    #[serde(default)]
    #[schemars(extend("default" = {"type": "Manual"}))]
    pub install_strategy: InstallStrategy,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A kind of configuration the add-on takes, and its default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DefaultConfig {
    /// API group of its kind; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Resource of its kind, such as addondeploymentconfigs.
    #[schemars(length(min = 1))]
    pub resource: String,
    /// Namespace; empty for cluster-scoped kinds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name; __reserved_no_default__ where the kind has no default.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// How far the add-on has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterManagementAddOnStatus {
    /// The default configurations, with the hashes of their content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub default_config_references: Vec<DefaultConfigReference>,
    /// One entry for each placement of the strategy, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub install_progressions: Vec<InstallProgression>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
