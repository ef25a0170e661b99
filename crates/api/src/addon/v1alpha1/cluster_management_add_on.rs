//! ClusterManagementAddOn: an add-on of the fleet, and how it is installed and rolled out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AddOnConfig, AddOnMeta, ConfigCoordinates, ConfigReferent, ConfigSpecHash};
use crate::cluster::v1alpha1::RolloutStrategy;
use crate::{Condition, Unknown, names};

kind! {
    /// ClusterManagementAddOn is an add-on as the hub offers it: its configurations, and the clusters that
    /// get it.
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

/// The spec says what the add-on is, and which clusters get it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterManagementAddOnSpec {
    /// The meta describes the add-on for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on_meta: Option<AddOnMeta>,
    /// This field is deprecated and has no effect. Use supportedConfigs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on_configuration: Option<ConfigCoordinates>,
    /// The add-on takes these kinds of configuration. Each may have a default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["group", "resource"]))]
    pub supported_configs: Vec<ConfigMeta>,
    /// The strategy says which clusters get the add-on.
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
    /// This is the API group of the configuration. It is empty for the core group.
    #[serde(default)]
    pub group: String,
    /// This is the plural resource name of the configuration, such as addondeploymentconfigs.
    #[schemars(length(min = 1))]
    pub resource: String,
    /// This configuration is used when neither a placement nor the cluster names one.
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
    /// The type says how clusters get the add-on. The default is Manual.
    #[serde(default)]
    pub r#type: InstallStrategyType,
    /// Clusters of these placements get the add-on when the type is Placements. For a cluster of several
    /// placements, the last one counts.
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
    /// This is the namespace of the Placement.
    #[schemars(length(min = 1))]
    pub namespace: String,
    /// This is the name of the Placement.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The clusters of the placement get these configurations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub configs: Vec<AddOnConfig>,
    /// The strategy says in which order and how fast a change of configuration reaches the clusters.
    #[serde(default)]
    #[schemars(extend("default" = {"type": "All"}))]
    pub rollout_strategy: RolloutStrategy,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// The status says how far the add-on is rolled out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterManagementAddOnStatus {
    /// These are the default configurations with the hashes of their content. OCM spells the name of the
    /// field this way.
    #[serde(default, rename = "defaultconfigReferences", skip_serializing_if = "Vec::is_empty")]
    pub default_config_references: Vec<DefaultConfigReference>,
    /// Each placement of the strategy has an entry, in its order.
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
    /// This is the API group of the configuration. It is empty for the core group.
    #[serde(default)]
    pub group: String,
    /// This is the plural resource name of the configuration, such as addondeploymentconfigs.
    #[schemars(length(min = 1))]
    pub resource: String,
    /// This is the configuration that is wanted, with its hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_config: Option<ConfigSpecHash>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// InstallProgression says how far the add-on is rolled out on the clusters of a placement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstallProgression {
    /// This is the namespace of the Placement.
    #[schemars(length(min = 1))]
    pub namespace: String,
    /// This is the name of the Placement.
    #[schemars(length(min = 1))]
    pub name: String,
    /// These are the configurations, sorted by group and resource.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config_references: Vec<InstallConfigReference>,
    /// Progressing says whether all clusters have the configuration.
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
    /// This is the API group of the configuration. It is empty for the core group.
    #[serde(default)]
    pub group: String,
    /// This is the plural resource name of the configuration, such as addondeploymentconfigs.
    #[schemars(length(min = 1))]
    pub resource: String,
    /// This is the configuration that is wanted, with its hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_config: Option<ConfigSpecHash>,
    /// Every cluster last ran this configuration without a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_known_good_config: Option<ConfigSpecHash>,
    /// Every cluster last ran this configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_applied_config: Option<ConfigSpecHash>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
