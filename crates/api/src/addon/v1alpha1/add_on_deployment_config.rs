//! AddOnDeploymentConfig: values for the manifests of an add-on.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ResourceRequirements, Toleration};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{Unknown, names};

kind! {
    /// AddOnDeploymentConfig says how the agents of add-ons are deployed on clusters: variables, nodes,
    /// registries, proxies and resources.
    AddOnDeploymentConfig {
        group: names::ADDON_GROUP,
        version: "v1alpha1",
        plural: "addondeploymentconfigs",
        scope: Namespaced,
        spec(required): AddOnDeploymentConfigSpec,
    }
}

/// Settings for the deployment of agents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddOnDeploymentConfigSpec {
    /// Variables that replace `{{NAME}}` in the objects of the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub customized_variables: Vec<CustomizedVariable>,
    /// Nodes on which the agent runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_placement: Option<NodePlacement>,
    /// Mirrors of image registries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub registries: Vec<ImageMirror>,
    /// Proxies of the agent.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub proxy_config: ProxyConfig,
    /// Namespace of the agent. Default: open-cluster-management-agent-addon. If empty, the namespaces of the
    /// template stay.
    #[serde(default = "default_namespace")]
    #[schemars(length(max = 63), extend("pattern" = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"))]
    pub agent_install_namespace: String,
    /// Resources of some containers of the agent. The last entry that matches counts.
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

/// CustomizedVariable is a variable for the objects of an agent.
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

/// NodePlacement says on which nodes an agent runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePlacement {
    /// Labels that nodes must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints of nodes that the pods of the agent tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ImageMirror replaces the registry of images.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImageMirror {
    /// Registry to pull images from, such as registry.example.com/mirror.
    pub mirror: String,
    /// Registry whose images are pulled from the mirror. If empty, all registries.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ProxyConfig names proxies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyConfig {
    /// URL of the proxy for http.
    #[serde(default, rename = "httpProxy", skip_serializing_if = "String::is_empty")]
    pub http_proxy: String,
    /// URL of the proxy for https.
    #[serde(default, rename = "httpsProxy", skip_serializing_if = "String::is_empty")]
    pub https_proxy: String,
    /// CA bundle for the certificate of the HTTPS proxy, as PEM in base64.
    #[serde(default, rename = "caBundle", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "byte"))]
    pub ca_bundle: Option<String>,
    /// Hosts that the agent reaches without a proxy, separated by commas.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub no_proxy: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Marks the list as a map, which `k8s_openapi` does not.
fn claims_by_name(resources: &mut Schema) {
    if let Some(Value::Object(claims)) = resources.pointer_mut("/properties/claims") {
        claims.insert("x-kubernetes-list-type".into(), "map".into());
        claims.insert("x-kubernetes-list-map-keys".into(), json!(["name"]));
    }
}

/// ContainerResourceRequirements sets the resources of some containers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContainerResourceRequirements {
    /// Containers, as resource:name:container, such as deployments:web:server. Each part may be *.
    #[serde(rename = "containerID")]
    #[schemars(extend("pattern" = "^(deployments|daemonsets|statefulsets|replicasets|jobs|cronjobs|pods|\\*):.+:.+$"))]
    pub container_id: String,
    /// Requests and limits of the containers.
    #[schemars(transform = claims_by_name)]
    pub resources: ResourceRequirements,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
