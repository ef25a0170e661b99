//! Klusterlet: the installation of the agent on a managed cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FeatureGate, InstallMode, OperatorStatus, RegistrationConfiguration, ResourceRequirement};
use crate::addon::v1alpha1::NodePlacement;
use crate::{Unknown, names};

kind! {
    /// Klusterlet is the installation of the agent on a managed cluster. The secret bootstrap-hub-kubeconfig in
    /// the namespace of the agent names the hub.
    Klusterlet {
        group: names::OPERATOR_GROUP,
        version: "v1",
        plural: "klusterlets",
        scope: Cluster,
        spec: KlusterletSpec,
        status: OperatorStatus,
        columns: [
            ("Cluster", "string", ".spec.clusterName"),
            ("Mode", "string", ".spec.deployOption.mode"),
            ("Applied", "string", ".status.conditions[?(@.type==\"Applied\")].status"),
            ("Available", "string", ".status.conditions[?(@.type==\"Available\")].status"),
            ("Degraded", "string", ".status.conditions[?(@.type==\"HubConnectionDegraded\")].status"),
        ],
    }
}

/// Settings of the installation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KlusterletSpec {
    /// Namespace of the agent. The default is open-cluster-management-agent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 57), extend("pattern" = "^open-cluster-management-[-a-z0-9]*[a-z0-9]$"))]
    pub namespace: String,
    /// Image of the registration agent. The default is the image of the operator.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub registration_image_pull_spec: String,
    /// Image of the work agent. The default is the image of the operator.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub work_image_pull_spec: String,
    /// Image of the agent in the mode Singleton. The default is the image of the operator.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image_pull_spec: String,
    /// Name of the cluster on the hub. The agent takes a random name by default.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63), extend("pattern" = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub cluster_name: String,
    /// URLs at which the API server of the cluster is reachable from outside. The hub learns them.
    #[serde(default, rename = "externalServerURLs", skip_serializing_if = "Vec::is_empty")]
    pub external_server_urls: Vec<ServerUrl>,
    /// Nodes on which the agent runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_placement: Option<NodePlacement>,
    /// Deployments of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deploy_option: Option<KlusterletDeployOption>,
    /// Configuration of the registration agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration_configuration: Option<RegistrationConfiguration>,
    /// Configuration of the work agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_configuration: Option<WorkAgentConfiguration>,
    /// Address at which the agent reaches the host of the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hub_api_server_host_alias: Option<HubApiServerHostAlias>,
    /// Resources of the containers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_requirement: Option<ResourceRequirement>,
    /// Priority class of the pods.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub priority_class_name: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// KlusterletDeployOption says which Deployments there are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KlusterletDeployOption {
    /// Default or Singleton.
    #[serde(default)]
    pub mode: InstallMode,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ServerURL is an address of the API server of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerUrl {
    /// Https URL.
    pub url: String,
    /// CA bundle for the certificate of the API server, as PEM in base64.
    #[serde(default, rename = "caBundle", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "byte"))]
    pub ca_bundle: Option<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// HubApiServerHostAlias is an entry of the hosts file of the pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HubApiServerHostAlias {
    /// IPv4 address.
    #[schemars(extend("pattern" = "^(?:(?:25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)\\.){3}(?:25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)$"))]
    pub ip: String,
    /// Name of the host.
    #[schemars(extend("pattern" = "^(([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9\\-]*[a-zA-Z0-9])\\.)*([A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9\\-]*[A-Za-z0-9])$"))]
    pub hostname: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// WorkAgentConfiguration configures the work agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkAgentConfiguration {
    /// Feature gates to set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feature_gates: Vec<FeatureGate>,
    /// Rate of requests to the API server of the cluster, per second.
    #[serde(default, rename = "kubeAPIQPS", skip_serializing_if = "Option::is_none")]
    pub kube_api_qps: Option<i32>,
    /// Number of requests to the API server of the cluster that may exceed the rate.
    #[serde(default, rename = "kubeAPIBurst", skip_serializing_if = "Option::is_none")]
    pub kube_api_burst: Option<i32>,
    /// Rate of requests to the API server of the hub, per second.
    #[serde(default, rename = "hubKubeAPIQPS", skip_serializing_if = "Option::is_none")]
    pub hub_kube_api_qps: Option<i32>,
    /// Number of requests to the API server of the hub that may exceed the rate.
    #[serde(default, rename = "hubKubeAPIBurst", skip_serializing_if = "Option::is_none")]
    pub hub_kube_api_burst: Option<i32>,
    /// Time before the agent deletes the objects of a work that the hub no longer has.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("pattern" = "^([0-9]+(s|m|h))+$"))]
    pub applied_manifest_work_eviction_grace_period: String,
    /// Interval at which the agent reads the status of works.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("pattern" = "^([0-9]+(s|m|h))+$"))]
    pub status_sync_interval: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
