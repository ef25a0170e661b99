//! Klusterlet: the installation of the agent on a managed cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FeatureGate, InstallMode, OperatorStatus, RegistrationConfiguration, ResourceRequirement};
use crate::addon::v1alpha1::NodePlacement;
use crate::{Unknown, names};

kind! {
    /// Klusterlet says how the agent of a managed cluster is installed. The secret bootstrap-hub-kubeconfig in
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

/// The spec says how the agent is installed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KlusterletSpec {
    /// The agent is installed in this namespace. The default is open-cluster-management-agent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 57), extend("pattern" = "^open-cluster-management-[-a-z0-9]*[a-z0-9]$"))]
    pub namespace: String,
    /// This is the image of the registration agent. The default is the image of the operator.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub registration_image_pull_spec: String,
    /// This is the image of the work agent. The default is the image of the operator.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub work_image_pull_spec: String,
    /// This is the image of the agent in the mode Singleton. The default is the image of the operator.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image_pull_spec: String,
    /// This is the name of the cluster on the hub. The agent takes a random name by default.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63), extend("pattern" = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub cluster_name: String,
    /// The API server of the cluster is reached at these URLs from outside. The hub learns them.
    #[serde(default, rename = "externalServerURLs", skip_serializing_if = "Vec::is_empty")]
    pub external_server_urls: Vec<ServerUrl>,
    /// The placement says on which nodes the agent runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_placement: Option<NodePlacement>,
    /// The option says which Deployments there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deploy_option: Option<KlusterletDeployOption>,
    /// This is the configuration of the registration agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration_configuration: Option<RegistrationConfiguration>,
    /// This is the configuration of the work agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_configuration: Option<WorkAgentConfiguration>,
    /// The agent reaches the host of the hub at this address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hub_api_server_host_alias: Option<HubApiServerHostAlias>,
    /// These are the resources of the containers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_requirement: Option<ResourceRequirement>,
    /// This is the priority class of the pods.
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
    /// The mode is Default or Singleton.
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
    /// This is the https URL.
    pub url: String,
    /// These certificate authorities sign the certificate of the API server, as PEM in base64.
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
    /// This is the IPv4 address.
    #[schemars(extend("pattern" = "^(?:(?:25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)\\.){3}(?:25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)$"))]
    pub ip: String,
    /// This is the name of the host.
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
    /// These feature gates are set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feature_gates: Vec<FeatureGate>,
    /// This is the rate of requests to the API server of the cluster, per second.
    #[serde(default, rename = "kubeAPIQPS", skip_serializing_if = "Option::is_none")]
    pub kube_api_qps: Option<i32>,
    /// This is the number of requests to the API server of the cluster that may exceed the rate.
    #[serde(default, rename = "kubeAPIBurst", skip_serializing_if = "Option::is_none")]
    pub kube_api_burst: Option<i32>,
    /// This is the rate of requests to the API server of the hub, per second.
    #[serde(default, rename = "hubKubeAPIQPS", skip_serializing_if = "Option::is_none")]
    pub hub_kube_api_qps: Option<i32>,
    /// This is the number of requests to the API server of the hub that may exceed the rate.
    #[serde(default, rename = "hubKubeAPIBurst", skip_serializing_if = "Option::is_none")]
    pub hub_kube_api_burst: Option<i32>,
    /// The agent waits this long before it deletes the objects of a work that the hub no longer has.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("pattern" = "^([0-9]+(s|m|h))+$"))]
    pub applied_manifest_work_eviction_grace_period: String,
    /// The agent reads the status of works at this interval.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("pattern" = "^([0-9]+(s|m|h))+$"))]
    pub status_sync_interval: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
