//! ClusterManagementAddOn: an add-on of the fleet, and how it is installed and rolled out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AddOnConfig, AddOnMeta, ConfigCoordinates, ConfigReferent, ConfigSpecHash};
use crate::cluster::v1alpha1::RolloutStrategy;
use crate::{Condition, Unknown, names};

kind! {
    /// An add-on as the hub offers it: its configurations, and the clusters it goes to.
    ClusterManagementAddOn {
        group: names::ADDON_GROUP,
        version: "v1alpha1",
        plural: "clustermanagementaddons",
        scope: Cluster,
        spec(required): ClusterManagementAddOnSpec,
        status: ClusterManagementAddOnStatus,
        short: ["cma", "cmas"],
        columns: [
            ("DISPLAY NAME", "string", ".spec.addOnMeta.displayName"),
            ("CRD NAME", "string", ".spec.addOnConfiguration.crdName"),
        ],
    }
}

/// What an add-on is, and where it goes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterManagementAddOnSpec {
    /// What people read of the add-on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on_meta: Option<AddOnMeta>,
    /// Deprecated, without effect: use supportedConfigs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on_configuration: Option<ConfigCoordinates>,
    /// The kinds of configuration the add-on takes, each with its default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["group", "resource"]))]
    pub supported_configs: Vec<ConfigMeta>,
    /// Which clusters get the add-on.
    #[serde(default)]
    #[schemars(extend("default" = {"type": "Manual"}))]
    pub install_strategy: InstallStrategy,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A kind of configuration the add-on takes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMeta {
    /// API group of its kind; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Resource of its kind, such as addondeploymentconfigs.
    #[schemars(length(min = 1))]
    pub resource: String,
    /// The configuration that is used where nothing else is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_config: Option<ConfigReferent>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Which clusters get the add-on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InstallStrategy {
    /// Which of the two ways counts.
    #[serde(default)]
    pub r#type: InstallStrategyType,
    /// The placements whose clusters get it, for the type Placements. Where a cluster is in several, the last
    /// one counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["namespace", "name"]))]
    pub placements: Vec<PlacementStrategy>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// How clusters get the add-on.
    pub enum InstallStrategyType {
        /// Somebody creates a ManagedClusterAddOn for each of them.
        Manual = "Manual",
        /// Placements select them.
        Placements = "Placements",
    }
}

/// The clusters of a placement get the add-on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementStrategy {
    /// Namespace of the placement.
    #[schemars(length(min = 1))]
    pub namespace: String,
    /// Name of the placement.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Configurations for the clusters of the placement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub configs: Vec<AddOnConfig>,
    /// In which order and how fast a change of configuration reaches the clusters.
    #[serde(default)]
    #[schemars(extend("default" = {"type": "All"}))]
    pub rollout_strategy: RolloutStrategy,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// How far the add-on has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterManagementAddOnStatus {
    /// The default configurations, with the hashes of their content; spelled so.
    #[serde(default, rename = "defaultconfigReferences", skip_serializing_if = "Vec::is_empty")]
    pub default_config_references: Vec<DefaultConfigReference>,
    /// One entry for each placement of the strategy, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub install_progressions: Vec<InstallProgression>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A default configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefaultConfigReference {
    /// API group of its kind; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Resource of its kind, such as addondeploymentconfigs.
    #[schemars(length(min = 1))]
    pub resource: String,
    /// What is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_config: Option<ConfigSpecHash>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// How far the add-on has come on the clusters of a placement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstallProgression {
    /// Namespace of the placement.
    #[schemars(length(min = 1))]
    pub namespace: String,
    /// Name of the placement.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The configurations, sorted by group and resource.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config_references: Vec<InstallConfigReference>,
    /// Whether the clusters are all configured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A configuration on the clusters of a placement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstallConfigReference {
    /// API group of its kind; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Resource of its kind, such as addondeploymentconfigs.
    #[schemars(length(min = 1))]
    pub resource: String,
    /// What is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_config: Option<ConfigSpecHash>,
    /// What every cluster had last, without a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_known_good_config: Option<ConfigSpecHash>,
    /// What every cluster had last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_applied_config: Option<ConfigSpecHash>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
