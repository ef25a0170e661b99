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
    /// The agent asks for certificates with this lifetime in seconds. 0 means that of the signer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cert_expiration_seconds: Option<i32>,
    /// These feature gates are set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feature_gates: Vec<FeatureGate>,
    /// A ManagedCluster that the agent creates has these annotations. Their keys begin with
    /// agent.open-cluster-management.io.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cluster_annotations: BTreeMap<String, String>,
    /// A ManagedCluster that the agent creates has these labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cluster_labels: BTreeMap<String, String>,
    /// This is the rate of requests to the API server of the cluster, per second.
    #[serde(default, rename = "kubeAPIQPS", skip_serializing_if = "Option::is_none")]
    pub kube_api_qps: Option<i32>,
    /// This is the number of requests to the API server of the cluster that may exceed the rate.
    #[serde(default, rename = "kubeAPIBurst", skip_serializing_if = "Option::is_none")]
    pub kube_api_burst: Option<i32>,
    /// With several bootstrap kubeconfigs the agent goes to the next hub when it loses one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap_kube_configs: Option<BootstrapKubeConfigs>,
    /// This is how the agent proves its identity to the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration_driver: Option<RegistrationDriver>,
    /// This is how add-ons prove their identity to the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on_kube_client_registration_driver: Option<AddOnRegistrationDriver>,
    /// This says which ClusterClaims the hub sees.
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
    /// This is the type.
    #[serde(default, rename = "type")]
    pub type_: BootstrapKubeConfigsType,
    /// These are the secrets of the type LocalSecrets.
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
    /// These secrets are in the namespace of the agent, two at least.
    pub kube_config_secrets: Vec<KubeConfigSecret>,
    /// The agent goes to another hub when it has not reached its own for so many seconds.
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
    /// This is the name of the secret.
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
    /// This is csr, awsirsa or grpc.
    #[serde(default = "csr")]
    #[schemars(extend("enum" = ["csr", "awsirsa", "grpc"]))]
    pub auth_type: String,
    /// These are the values of the type awsirsa.
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
    /// This is csr or token.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["csr", "token"]))]
    pub auth_type: String,
    /// These are the values of the type token.
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
    /// This is the lifetime of tokens in seconds.
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
    /// This is the limit of the ClusterClaims beside the reserved ones.
    #[serde(default = "claims")]
    pub max_custom_cluster_claims: i32,
    /// Claims whose names end so are reserved, too.
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
