//! ClusterManager: the installation of a hub.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::parts::any_object;
use super::{FeatureGate, InstallMode, OperatorStatus, ResourceRequirement};
use crate::addon::v1alpha1::NodePlacement;
use crate::{Manifest, Unknown, names};

kind! {
    /// ClusterManager says how the hub side is installed on a cluster.
    ClusterManager {
        group: names::OPERATOR_GROUP,
        version: "v1",
        plural: "clustermanagers",
        scope: Cluster,
        spec: ClusterManagerSpec,
        status: OperatorStatus,
        columns: [
            ("Applied", "string", ".status.conditions[?(@.type==\"Applied\")].status"),
            ("Progressing", "string", ".status.conditions[?(@.type==\"Progressing\")].status"),
            ("Degraded", "string", ".status.conditions[?(@.type==\"HubRegistrationDegraded\")].status"),
        ],
    }
}

/// The spec says how the hub side is installed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterManagerSpec {
    /// This is the image of the hub side, which is one process here. The default is the image of the operator.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub registration_image_pull_spec: String,
    /// This is the image of OCM's work controller.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub work_image_pull_spec: String,
    /// This is the image of OCM's placement controller.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub placement_image_pull_spec: String,
    /// This is the image of OCM's add-on manager.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub add_on_manager_image_pull_spec: String,
    /// The placement says on which nodes the hub side runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_placement: Option<NodePlacement>,
    /// The option says where the hub side runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deploy_option: Option<ClusterManagerDeployOption>,
    /// This is the configuration of registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration_configuration: Option<RegistrationHubConfiguration>,
    /// This is the configuration of works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_configuration: Option<WorkConfiguration>,
    /// This is the configuration of add-ons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on_manager_configuration: Option<AddOnManagerConfiguration>,
    /// This is the configuration of placements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_configuration: Option<PlacementConfiguration>,
    /// This is the configuration of OCM's gRPC server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub server_configuration: Option<Manifest>,
    /// These are the resources of the containers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_requirement: Option<ResourceRequirement>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ClusterManagerDeployOption says where the hub side runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterManagerDeployOption {
    /// The mode is Default.
    #[serde(default)]
    #[schemars(extend("enum" = ["Default", "Hosted"]))]
    pub mode: InstallMode,
    /// These are the values of the mode Default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub default: Option<Manifest>,
    /// These are the values of the mode Hosted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub hosted: Option<Manifest>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// RegistrationHubConfiguration configures registration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistrationHubConfiguration {
    /// Clusters of these users join without a person, if the gate ManagedClusterAutoApproval is on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub auto_approve_users: Vec<String>,
    /// These feature gates are set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feature_gates: Vec<FeatureGate>,
    /// These are the ways in which agents may prove their identity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["authType"]))]
    pub registration_drivers: Vec<RegistrationDriverHub>,
    /// This is the configuration of OCM's cluster importer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub importer_configuration: Option<Manifest>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// RegistrationDriverHub is a way in which agents may prove their identity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistrationDriverHub {
    /// This is csr, awsirsa or grpc.
    #[serde(default = "csr")]
    #[schemars(extend("enum" = ["csr", "awsirsa", "grpc"]))]
    pub auth_type: String,
    /// These are the values of the type csr.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub csr: Option<CsrConfig>,
    /// These are the values of the type awsirsa.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub awsirsa: Option<Manifest>,
    /// These are the values of the type grpc.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub grpc: Option<Manifest>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

fn csr() -> String {
    "csr".into()
}

/// CSRConfig configures certificate signing requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CsrConfig {
    /// Clusters of these users join without a person, if the gate ManagedClusterAutoApproval is on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub auto_approved_identities: Vec<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// WorkConfiguration configures works.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkConfiguration {
    /// These feature gates are set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feature_gates: Vec<FeatureGate>,
    /// This is kube, mqtt or grpc.
    #[serde(default = "kube")]
    #[schemars(extend("enum" = ["kube", "mqtt", "grpc"]))]
    pub work_driver: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

fn kube() -> String {
    "kube".into()
}

/// AddOnManagerConfiguration configures add-ons.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddOnManagerConfiguration {
    /// These feature gates are set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feature_gates: Vec<FeatureGate>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// PlacementConfiguration configures placements.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementConfiguration {
    /// These feature gates are set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feature_gates: Vec<FeatureGate>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
