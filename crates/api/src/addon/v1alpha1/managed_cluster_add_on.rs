//! ManagedClusterAddOn: an add-on on one cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AddOnConfig, AddOnMeta, ConfigCoordinates, ConfigGroupResource, ConfigSpecHash, Subject};
use crate::{Condition, Unknown, names};

kind! {
    /// An add-on on the cluster whose namespace it is in.
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

/// How the add-on is configured on this cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterAddOnSpec {
    /// Deprecated: where the agent goes. An AddOnDeploymentConfig says it now.
    #[serde(default = "default_namespace", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63), extend("pattern" = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub install_namespace: String,
    /// Configurations for this cluster alone.
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
    /// The namespace of the add-on's agent on its cluster: as the hub found, else as the add-on says, else
    /// OCM's default.
    pub fn agent_namespace(&self) -> &str {
        let found = self.status.as_ref().map(|status| status.namespace.as_str());
        let said = self.spec.install_namespace.as_str();
        let named = found.into_iter().chain([said]).find(|namespace| !namespace.is_empty());
        named.unwrap_or(names::DEFAULT_ADDON_NAMESPACE)
    }
}

/// How the add-on does on this cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterAddOnStatus {
    /// Whether the add-on is configured, applied, available.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Objects worth looking at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub related_objects: Vec<ObjectReference>,
    /// What people read of the add-on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on_meta: Option<AddOnMeta>,
    /// Deprecated, without effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on_configuration: Option<ConfigCoordinates>,
    /// The kinds of configuration the add-on takes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["group", "resource"]))]
    pub supported_configs: Vec<ConfigGroupResource>,
    /// The configurations in use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config_references: Vec<ConfigReference>,
    /// Where the agent goes on the cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The identities the agent asks for on the hub.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub registrations: Vec<RegistrationConfig>,
    /// How the health of the add-on is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check: Option<HealthCheck>,
    /// How the agent of the cluster proves who it is to the hub's API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_client_driver: Option<KubeClientDriver>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// An object of the cluster or of the hub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ObjectReference {
    /// API group; empty for the core group.
    pub group: String,
    /// Resource, such as deployments.
    pub resource: String,
    /// Namespace; empty for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A configuration in use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigReference {
    /// API group of its kind; empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Resource of its kind, such as addondeploymentconfigs.
    #[schemars(length(min = 1))]
    pub resource: String,
    /// Deprecated: its namespace. desiredConfig says it now.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Deprecated: its name. desiredConfig says it now.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Generation of the configuration that was seen.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub last_observed_generation: i64,
    /// What is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_config: Option<ConfigSpecHash>,
    /// What the cluster had last when everything was applied and available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_applied_config: Option<ConfigSpecHash>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// An identity the agent asks for on the hub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistrationConfig {
    /// Who signs the certificate.
    #[schemars(length(min = 5, max = 571), extend("pattern" = names::SIGNER_PATTERN))]
    pub signer_name: String,
    /// What the certificate says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// How the health of an add-on is found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HealthCheck {
    /// Which of the ways counts.
    #[serde(default)]
    pub mode: HealthCheckMode,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// How the health of an add-on is found.
    pub enum HealthCheckMode {
        /// By the lease the agent renews on its cluster.
        Lease = "Lease",
        /// By what the add-on's manager says.
        Customized = "Customized",
    }
}

open_enum! {
    /// How an agent proves who it is.
    pub enum KubeClientDriver {
        /// By a client certificate.
        Csr = "csr",
        /// By a service account token.
        Token = "token",
    }
}
