//! ManagedCluster: a spoke as the hub knows it.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Quantities;
use crate::{Condition, Unknown, names};

kind! {
    /// ManagedCluster is a cluster of the fleet: its acceptance, the access to it, and what its agent reports.
    ManagedCluster {
        group: names::CLUSTER_GROUP,
        version: "v1",
        plural: "managedclusters",
        scope: Cluster,
        spec: ManagedClusterSpec,
        status: ManagedClusterStatus,
        short: ["mcl", "mcls"],
        columns: [
            ("Hub Accepted", "boolean", ".spec.hubAcceptsClient"),
            ("Managed Cluster URLs", "string", ".spec.managedClusterClientConfigs[*].url"),
            ("Joined", "string", ".status.conditions[?(@.type==\"ManagedClusterJoined\")].status"),
            ("Available", "string", ".status.conditions[?(@.type==\"ManagedClusterConditionAvailable\")].status"),
            ("Age", "date", ".metadata.creationTimestamp"),
        ],
    }
}

/// Acceptance, access and taints of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSpec {
    /// Access to the API server of the cluster. Empty if the hub cannot reach it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managed_cluster_client_configs: Vec<ClientConfig>,
    /// If true, the cluster is accepted. If false, which is the default, the agent gets no credentials and no
    /// permissions. Setting it requires the permission `managedclusters/accept`.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub hub_accepts_client: bool,
    /// Seconds between two renewals of the lease of the cluster. Default: 60. 0 means 60. After five missed
    /// renewals the availability of the cluster is Unknown.
    #[serde(default = "default_lease_duration")]
    pub lease_duration_seconds: i32,
    /// Taints. They keep placements that do not tolerate them away from the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

fn default_lease_duration() -> i32 {
    60
}

/// ClientConfig is the access to one API server of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientConfig {
    /// Https URL of the API server.
    pub url: String,
    /// CA bundle for the certificate of the API server, as PEM in base64. If absent, the system's CAs count.
    #[serde(default, rename = "caBundle", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "byte"))]
    pub ca_bundle: Option<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A taint keeps placements away from a cluster unless they tolerate it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// Key of the taint, such as bar or foo.example.com/bar.
    #[schemars(length(max = 316), extend("pattern" = names::QUALIFIED_NAME_PATTERN))]
    pub key: String,
    /// Value of the taint. May be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub value: String,
    /// Effect on placements that do not tolerate the taint.
    pub effect: TaintEffect,
    /// Time at which the taint was added. The hub writes it. Tolerations in seconds count from this time.
    #[serde(deserialize_with = "crate::lenient::optional_time", default)]
    #[schemars(extend("nullable" = true))]
    pub time_added: Option<Time>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Formats a taint like `kubectl taint`: `key=value:effect`, or `key:effect` without a value.
impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value, effect, .. } = self;
        match value.is_empty() {
            true => write!(f, "{key}:{effect}"),
            false => write!(f, "{key}={value}:{effect}"),
        }
    }
}

open_enum! {
    /// Effect on placements that do not tolerate the taint.
    pub enum TaintEffect {
        /// Placements do not select the cluster, and remove it from their decisions.
        NoSelect = "NoSelect",
        /// Placements select the cluster only when others are too few.
        PreferNoSelect = "PreferNoSelect",
        /// Placements do not select the cluster, but decisions that have it keep it.
        NoSelectIfNew = "NoSelectIfNew",
    }
}

/// State of the cluster, as its agent and the hub report it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterStatus {
    /// Conditions of the cluster: whether it is accepted, has joined and is available.
    #[serde(default, deserialize_with = "exact")]
    #[schemars(extend("default" = null, "x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Sum of the resources of all nodes.
    #[serde(default, skip_serializing_if = "Quantities::is_empty")]
    #[schemars(with = "BTreeMap<String, Quantity>")]
    pub capacity: Quantities,
    /// Sum of the resources that pods can use on schedulable nodes.
    #[serde(default, skip_serializing_if = "Quantities::is_empty")]
    #[schemars(with = "BTreeMap<String, Quantity>")]
    pub allocatable: Quantities,
    /// Version of the cluster.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub version: ManagedClusterVersion,
    /// Properties that the cluster reports about itself. The agent copies them from ClusterClaims.
    #[serde(default, deserialize_with = "exact", skip_serializing_if = "Vec::is_empty")]
    pub cluster_claims: Vec<ManagedClusterClaim>,
    /// Namespaces that the sets of the cluster want on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["clusterSet", "name"]))]
    pub managed_namespaces: Vec<ManagedNamespaceStatus>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Reads a list without spare capacity, because a hub holds one for each cluster.
fn exact<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let mut list = Vec::deserialize(deserializer)?;
    list.shrink_to_fit();
    Ok(list)
}

/// ManagedClusterVersion names what a cluster runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ManagedClusterVersion {
    /// Version of Kubernetes, such as v1.34.1.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kubernetes: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ManagedClusterClaim is a property that a cluster reports about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ManagedClusterClaim {
    /// Name of the ClusterClaim, such as id.k8s.io.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Value of the ClusterClaim.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 1024))]
    pub value: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ManagedNamespaceStatus is the state of a namespace that a cluster set wants on the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedNamespaceStatus {
    /// Name of the namespace.
    #[schemars(length(min = 1, max = 63), extend("pattern" = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// ManagedClusterSet that wants the namespace.
    pub cluster_set: String,
    /// Conditions of the namespace: whether it exists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
