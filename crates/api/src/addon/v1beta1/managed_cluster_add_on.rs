//! ManagedClusterAddOn in v1beta1.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::addon::v1alpha1::{
    AddOnConfig, AddOnMeta, ConfigGroupResource, ConfigSpecHash, HealthCheck, KubeClientDriver,
    ObjectReference,
};
use crate::{Condition, Unknown, names};

kind! {
    /// ManagedClusterAddOn is an add-on on one cluster, in the namespace of the cluster.
    ManagedClusterAddOn {
        group: names::ADDON_GROUP,
        version: "v1beta1",
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
pub struct ManagedClusterAddOnSpec {
    /// Configurations for this cluster. They precede the configurations of placements and the defaults.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub configs: Vec<AddOnConfig>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
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
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ConfigReference is a configuration in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigReference {
    /// API group of the configuration. Empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Plural resource name of the configuration, such as addondeploymentconfigs.
    #[schemars(length(min = 1))]
    pub resource: String,
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistrationConfig {
    /// Type, which selects the field to use.
    pub r#type: RegistrationType,
    /// Options for the type kubeClient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_client: Option<KubeClientConfig>,
    /// Options for the type customSigner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_signer: Option<CustomSignerConfig>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// The type says what an identity is for.
    pub enum RegistrationType {
        /// The identity is for the API server of the hub.
        KubeClient = "kubeClient",
        /// The identity is for servers that trust the signer.
        CustomSigner = "customSigner",
    }
}

/// KubeClientConfig is an identity for the API server of the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KubeClientConfig {
    /// Identity of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<KubeClientSubject>,
    /// Method by which the agent proves its identity. The agent writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<KubeClientDriver>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// KubeClientSubject is the identity of an agent at the API server of the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KubeClientSubject {
    /// User name.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub user: String,
    /// Groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// CustomSignerConfig is a certificate of a signer of the add-on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomSignerConfig {
    /// Name of the signer.
    #[schemars(length(min = 5, max = 571), extend("pattern" = names::SIGNER_PATTERN))]
    pub signer_name: String,
    /// Subject of the certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<CustomSignerSubject>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// CustomSignerSubject is the identity in a certificate of a custom signer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomSignerSubject {
    /// Common name.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub user: String,
    /// Organizations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Organizational units.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub organization_units: Vec<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
