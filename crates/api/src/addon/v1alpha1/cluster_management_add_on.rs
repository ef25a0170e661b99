//! ClusterManagementAddOn: an add-on of the fleet, and how it is installed and rolled out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AddOnConfig, AddOnMeta, ConfigCoordinates, ConfigReferent, ConfigSpecHash};
use crate::cluster::v1alpha1::RolloutStrategy;
use crate::{Condition, Unknown, names};

kind! {
    /// ClusterManagementAddOn is an add-on that the hub offers, with its configurations and the clusters that get
    /// it.
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

/// Description of the add-on, and the clusters that get it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterManagementAddOnSpec {
    /// Display name and description of the add-on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on_meta: Option<AddOnMeta>,
    /// Deprecated. Has no effect. Use supportedConfigs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on_configuration: Option<ConfigCoordinates>,
    /// Kinds of configuration that the add-on supports, with optional defaults.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["group", "resource"]))]
    pub supported_configs: Vec<ConfigMeta>,
    /// Clusters that get the add-on.
    #[serde(default)]
    #[schemars(extend("default" = {"type": "Manual"}))]
    pub install_strategy: InstallStrategy,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ConfigMeta is a kind of configuration that the add-on takes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMeta {
    /// API group of the configuration. Empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Plural resource name of the configuration, such as addondeploymentconfigs.
    #[schemars(length(min = 1))]
    pub resource: String,
    /// Default configuration, if neither a placement nor the cluster names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_config: Option<ConfigReferent>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// InstallStrategy says which clusters get the add-on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InstallStrategy {
    /// Way in which clusters get the add-on. Default: Manual.
    #[serde(default)]
    pub r#type: InstallStrategyType,
    /// Placements whose clusters get the add-on if the type is Placements. For a cluster of several placements,
    /// the last one counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["namespace", "name"]))]
    pub placements: Vec<PlacementStrategy>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// The type says how clusters get the add-on.
    pub enum InstallStrategyType {
        /// A cluster gets the add-on when somebody creates a ManagedClusterAddOn in its namespace.
        Manual = "Manual",
        /// Placements select the clusters.
        Placements = "Placements",
    }
}

/// PlacementStrategy gives the add-on to the clusters of a placement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementStrategy {
    /// Namespace of the Placement.
    #[schemars(length(min = 1))]
    pub namespace: String,
    /// Name of the Placement.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Configurations for the clusters of the placement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub configs: Vec<AddOnConfig>,
    /// Order and speed at which a change of configuration reaches the clusters.
    #[serde(default)]
    #[schemars(extend("default" = {"type": "All"}))]
    pub rollout_strategy: RolloutStrategy,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Progress of the rollout of the add-on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterManagementAddOnStatus {
    /// Default configurations with the hashes of their content. OCM spells the name of the field this way.
    #[serde(default, rename = "defaultconfigReferences", skip_serializing_if = "Vec::is_empty")]
    pub default_config_references: Vec<DefaultConfigReference>,
    /// Progress on each placement of the strategy, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub install_progressions: Vec<InstallProgression>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// DefaultConfigReference is a default configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefaultConfigReference {
    /// API group of the configuration. Empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Plural resource name of the configuration, such as addondeploymentconfigs.
    #[schemars(length(min = 1))]
    pub resource: String,
    /// Desired configuration with its hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_config: Option<ConfigSpecHash>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// InstallProgression is the progress of the add-on on the clusters of a placement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstallProgression {
    /// Namespace of the Placement.
    #[schemars(length(min = 1))]
    pub namespace: String,
    /// Name of the Placement.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Configurations, sorted by group and resource.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config_references: Vec<InstallConfigReference>,
    /// The condition `Progressing` shows whether all clusters have the configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// InstallConfigReference is a configuration on the clusters of a placement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstallConfigReference {
    /// API group of the configuration. Empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Plural resource name of the configuration, such as addondeploymentconfigs.
    #[schemars(length(min = 1))]
    pub resource: String,
    /// Desired configuration with its hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_config: Option<ConfigSpecHash>,
    /// Configuration that every cluster last ran without a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_known_good_config: Option<ConfigSpecHash>,
    /// Configuration that every cluster last ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_applied_config: Option<ConfigSpecHash>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
