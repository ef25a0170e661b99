//! ClusterManager: the installation of a hub.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::parts::any_object;
use super::{FeatureGate, InstallMode, OperatorStatus, ResourceRequirement};
use crate::addon::v1alpha1::NodePlacement;
use crate::{Manifest, Unknown, names};

kind! {
    /// ClusterManager is the installation of the hub side on a cluster.
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

/// Settings of the installation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterManagerSpec {
    /// Image of the hub side, which is one process here. The default is the image of the operator.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub registration_image_pull_spec: String,
    /// Image of OCM's work controller.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub work_image_pull_spec: String,
    /// Image of OCM's placement controller.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub placement_image_pull_spec: String,
    /// Image of OCM's add-on manager.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub add_on_manager_image_pull_spec: String,
    /// Nodes on which the hub side runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_placement: Option<NodePlacement>,
    /// Place where the hub side runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deploy_option: Option<ClusterManagerDeployOption>,
    /// Configuration of registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration_configuration: Option<RegistrationHubConfiguration>,
    /// Configuration of works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_configuration: Option<WorkConfiguration>,
    /// Configuration of add-ons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on_manager_configuration: Option<AddOnManagerConfiguration>,
    /// Configuration of placements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_configuration: Option<PlacementConfiguration>,
    /// Configuration of OCM's gRPC server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub server_configuration: Option<Manifest>,
    /// Resources of the containers.
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
    /// Default.
    #[serde(default)]
    #[schemars(extend("enum" = ["Default", "Hosted"]))]
    pub mode: InstallMode,
    /// Values of the mode Default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub default: Option<Manifest>,
    /// Values of the mode Hosted.
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
    /// Users whose clusters are accepted automatically, if the gate ManagedClusterAutoApproval is on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub auto_approve_users: Vec<String>,
    /// Feature gates to set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feature_gates: Vec<FeatureGate>,
    /// Methods by which agents can prove their identity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["authType"]))]
    pub registration_drivers: Vec<RegistrationDriverHub>,
    /// Configuration of OCM's cluster importer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub importer_configuration: Option<Manifest>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// RegistrationDriverHub is a method by which agents can prove their identity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistrationDriverHub {
    /// `csr`, `awsirsa` or `grpc`.
    #[serde(default = "csr")]
    #[schemars(extend("enum" = ["csr", "awsirsa", "grpc"]))]
    pub auth_type: String,
    /// Values of the type csr.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub csr: Option<CsrConfig>,
    /// Values of the type awsirsa.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub awsirsa: Option<Manifest>,
    /// Values of the type grpc.
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
    /// Users whose clusters are accepted automatically, if the gate ManagedClusterAutoApproval is on.
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
    /// Feature gates to set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feature_gates: Vec<FeatureGate>,
    /// `kube`, `mqtt` or `grpc`.
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
    /// Feature gates to set.
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
    /// Feature gates to set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feature_gates: Vec<FeatureGate>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
