//! The configuration of the registration agent of a Klusterlet.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::FeatureGate;
use super::parts::any_object;
use crate::{Manifest, Unknown};

/// RegistrationConfiguration configures the registration agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistrationConfiguration {
    /// Lifetime of requested certificates in seconds. 0 means the default of the signer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cert_expiration_seconds: Option<i32>,
    /// Feature gates to set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feature_gates: Vec<FeatureGate>,
    /// Annotations of the ManagedCluster that the agent creates. Their keys begin with
    /// agent.open-cluster-management.io.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cluster_annotations: BTreeMap<String, String>,
    /// Labels of the ManagedCluster that the agent creates.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cluster_labels: BTreeMap<String, String>,
    /// Rate of requests to the API server of the cluster, per second.
    #[serde(default, rename = "kubeAPIQPS", skip_serializing_if = "Option::is_none")]
    pub kube_api_qps: Option<i32>,
    /// Number of requests to the API server of the cluster that may exceed the rate.
    #[serde(default, rename = "kubeAPIBurst", skip_serializing_if = "Option::is_none")]
    pub kube_api_burst: Option<i32>,
    /// Bootstrap kubeconfigs of several hubs. The agent goes to the next hub if it loses one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap_kube_configs: Option<BootstrapKubeConfigs>,
    /// Method by which the agent proves its identity to the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration_driver: Option<RegistrationDriver>,
    /// Method by which add-ons prove their identity to the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on_kube_client_registration_driver: Option<AddOnRegistrationDriver>,
    /// ClusterClaims that the hub sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_claim_configuration: Option<ClusterClaimConfiguration>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// The type says where bootstrap kubeconfigs are.
    pub enum BootstrapKubeConfigsType {
        /// The one of the secret bootstrap-hub-kubeconfig is used.
        None = "None",
        /// The secrets are listed.
        LocalSecrets = "LocalSecrets",
    }
}

/// BootstrapKubeConfigs lists bootstrap kubeconfigs in order of preference.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapKubeConfigs {
    /// Type.
    #[serde(default, rename = "type")]
    pub type_: BootstrapKubeConfigsType,
    /// Secrets of the type LocalSecrets.
    #[serde(default, rename = "localSecretsConfig", skip_serializing_if = "Option::is_none")]
    pub local_secrets: Option<LocalSecretsConfig>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// LocalSecretsConfig lists secrets with bootstrap kubeconfigs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalSecretsConfig {
    /// Secrets in the namespace of the agent, at least two.
    pub kube_config_secrets: Vec<KubeConfigSecret>,
    /// Seconds after which the agent goes to another hub if it cannot reach its own.
    #[serde(default = "hub_timeout")]
    #[schemars(range(min = 180))]
    pub hub_connection_timeout_seconds: i32,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

fn hub_timeout() -> i32 {
    600
}

/// KubeConfigSecret names a secret with a kubeconfig.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KubeConfigSecret {
    /// Name of the secret.
    pub name: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// RegistrationDriver says how the agent proves its identity to the hub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistrationDriver {
    /// `csr`, `awsirsa` or `grpc`.
    #[serde(default = "csr")]
    #[schemars(extend("enum" = ["csr", "awsirsa", "grpc"]))]
    pub auth_type: String,
    /// Values of the type awsirsa.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub aws_irsa: Option<Manifest>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

fn csr() -> String {
    "csr".into()
}

/// AddOnRegistrationDriver says how add-ons prove their identity to the hub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddOnRegistrationDriver {
    /// `csr` or `token`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["csr", "token"]))]
    pub auth_type: String,
    /// Values of the type token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenConfig>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// TokenConfig configures the tokens of add-ons.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenConfig {
    /// Lifetime of tokens in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiration_seconds: Option<i64>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ClusterClaimConfiguration says which ClusterClaims the hub sees.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterClaimConfiguration {
    /// Maximum number of ClusterClaims in addition to the reserved ones.
    #[serde(default = "claims")]
    pub max_custom_cluster_claims: i32,
    /// Suffixes of claim names that are also reserved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub reserved_cluster_claim_suffixes: Vec<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

fn claims() -> i32 {
    20
}
