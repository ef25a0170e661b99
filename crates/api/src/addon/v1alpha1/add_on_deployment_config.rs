//! AddOnDeploymentConfig: values for the manifests of an add-on.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ResourceRequirements, Toleration};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{Unknown, names};

kind! {
    /// How the agents of add-ons are deployed on clusters: variables, nodes, registries, proxies, resources.
    AddOnDeploymentConfig {
        group: names::ADDON_GROUP,
        version: "v1alpha1",
        plural: "addondeploymentconfigs",
        scope: Namespaced,
        spec(required): AddOnDeploymentConfigSpec,
    }
}

/// How agents are deployed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddOnDeploymentConfigSpec {
    /// Variables for the agent's objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub customized_variables: Vec<CustomizedVariable>,
    /// Which nodes the agent runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_placement: Option<NodePlacement>,
    /// Where images come from instead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub registries: Vec<ImageMirror>,
    /// Proxies the agent uses.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub proxy_config: ProxyConfig,
    /// Where the agent goes; empty keeps the namespaces of the template.
    #[serde(default = "default_namespace")]
    #[schemars(length(max = 63), extend("pattern" = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"))]
    pub agent_install_namespace: String,
    /// Resources of the agent's containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["containerID"]))]
    pub resource_requirements: Vec<ContainerResourceRequirements>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

fn default_namespace() -> String {
    names::DEFAULT_ADDON_NAMESPACE.into()
}

/// A variable for the agent's objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CustomizedVariable {
    /// Name of the variable.
    #[schemars(length(max = 255), extend("pattern" = "^[a-zA-Z_][_a-zA-Z0-9]*$"))]
    pub name: String,
    /// Value of the variable.
    #[serde(default)]
    #[schemars(length(max = 1024), extend("default" = null))]
    pub value: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Which nodes the agent runs on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePlacement {
    /// Labels of the nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints of nodes that do no harm.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Where images come from instead.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImageMirror {
    /// Where they come from.
    pub mirror: String,
    /// Where they would come from; every registry where empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Proxies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyConfig {
    /// Proxy for http, as a URL.
    #[serde(default, rename = "httpProxy", skip_serializing_if = "String::is_empty")]
    pub http_proxy: String,
    /// Proxy for https, as a URL.
    #[serde(default, rename = "httpsProxy", skip_serializing_if = "String::is_empty")]
    pub https_proxy: String,
    /// Certificate authorities of the https proxy, PEM in base64.
    #[serde(default, rename = "caBundle", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "byte"))]
    pub ca_bundle: Option<String>,
    /// Hosts to reach without a proxy, separated by commas.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub no_proxy: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// The list is a map, which `k8s_openapi` does not say.
fn claims_by_name(resources: &mut Schema) {
    if let Some(Value::Object(claims)) = resources.pointer_mut("/properties/claims") {
        claims.insert("x-kubernetes-list-type".into(), "map".into());
        claims.insert("x-kubernetes-list-map-keys".into(), json!(["name"]));
    }
}

/// Resources of some containers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContainerResourceRequirements {
    /// The containers, as resource:name:container with * for any.
    #[serde(rename = "containerID")]
    #[schemars(extend("pattern" = "^(deployments|daemonsets|statefulsets|replicasets|jobs|cronjobs|pods|\\*):.+:.+$"))]
    pub container_id: String,
    /// What they request, and their limits.
    #[schemars(transform = claims_by_name)]
    pub resources: ResourceRequirements,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
