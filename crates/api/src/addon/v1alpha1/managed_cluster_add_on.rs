//! ManagedClusterAddOn: an add-on on one cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AddOnConfig, AddOnMeta, ConfigCoordinates, ConfigGroupResource, ConfigSpecHash, Subject};
use crate::{Condition, Unknown, names};

kind! {
    /// ManagedClusterAddOn is an add-on on one cluster, in the namespace of the cluster.
    ManagedClusterAddOn {
        group: names::ADDON_GROUP,
        version: "v1alpha1",
        plural: "managedclusteraddons",
        scope: Namespaced,
        spec(required): ManagedClusterAddOnSpec,
        status: ManagedClusterAddOnStatus,
        short: ["mca", "mcas"],
        columns: [
            ("Available", "string", ".status.conditions[?(@.type==\"Available\")].status"),
            ("Degraded", "string", ".status.conditions[?(@.type==\"Degraded\")].status"),
            ("Progressing", "string", ".status.conditions[?(@.type==\"Progressing\")].status"),
        ],
    }
}

/// Configuration of the add-on on this cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterAddOnSpec {
    /// Deprecated. It named the namespace of the agent. Use an AddOnDeploymentConfig.
    #[serde(default = "default_namespace", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63), extend("pattern" = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub install_namespace: String,
    /// Configurations for this cluster. They precede the configurations of placements and the defaults.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub configs: Vec<AddOnConfig>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

fn default_namespace() -> String {
    names::DEFAULT_ADDON_NAMESPACE.into()
}

impl ManagedClusterAddOn {
    /// Returns the namespace of the add-on's agent on its cluster: from the status, else from the spec, else OCM's
    /// default.
    pub fn agent_namespace(&self) -> &str {
        let found = self.status.as_ref().map(|status| status.namespace.as_str());
        let in_spec = self.spec.install_namespace.as_str();
        let named = found.into_iter().chain([in_spec]).find(|namespace| !namespace.is_empty());
        named.unwrap_or(names::DEFAULT_ADDON_NAMESPACE)
    }
}

/// State of the add-on on this cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterAddOnStatus {
    /// Conditions of the add-on: whether it is configured, applied and available.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Objects that help to diagnose the add-on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub related_objects: Vec<ObjectReference>,
    /// Display name and description of the add-on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on_meta: Option<AddOnMeta>,
    /// Deprecated. Has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on_configuration: Option<ConfigCoordinates>,
    /// Kinds of configuration that the add-on supports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["group", "resource"]))]
    pub supported_configs: Vec<ConfigGroupResource>,
    /// Configurations in use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config_references: Vec<ConfigReference>,
    /// Namespace of the agent on the cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Identities that the agent requests on the hub.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub registrations: Vec<RegistrationConfig>,
    /// Source of the health of the add-on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check: Option<HealthCheck>,
    /// Method by which the agent proves its identity to the API server of the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_client_driver: Option<KubeClientDriver>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ObjectReference names an object of the cluster or of the hub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ObjectReference {
    /// API group. Empty for the core group.
    pub group: String,
    /// Plural resource name, such as deployments.
    pub resource: String,
    /// Namespace of the object. Empty for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ConfigReference is a configuration in use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigReference {
    /// API group of the configuration. Empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Plural resource name of the configuration, such as addondeploymentconfigs.
    #[schemars(length(min = 1))]
    pub resource: String,
    /// Deprecated. It holds the namespace of the configuration. Use desiredConfig.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Deprecated. It holds the name of the configuration. Use desiredConfig.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Generation of the configuration that was seen.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub last_observed_generation: i64,
    /// Desired configuration with its hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_config: Option<ConfigSpecHash>,
    /// Configuration that the cluster last ran with everything applied and available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_applied_config: Option<ConfigSpecHash>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// RegistrationConfig is an identity that the agent requests on the hub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistrationConfig {
    /// Signer of the certificate, such as kubernetes.io/kube-apiserver-client.
    #[schemars(length(min = 5, max = 571), extend("pattern" = names::SIGNER_PATTERN))]
    pub signer_name: String,
    /// Subject of the certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// HealthCheck says how the health of an add-on is found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HealthCheck {
    /// Source of the health. Default: Lease.
    #[serde(default)]
    pub mode: HealthCheckMode,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// HealthCheck says how the health of an add-on is found.
    pub enum HealthCheckMode {
        /// The agent of the add-on renews a Lease on its cluster.
        Lease = "Lease",
        /// The manager of the add-on writes the condition Available.
        Customized = "Customized",
    }
}

open_enum! {
    /// The driver says how an agent proves its identity.
    pub enum KubeClientDriver {
        /// The agent uses a client certificate.
        Csr = "csr",
        /// The agent uses a token of a service account.
        Token = "token",
    }
}
