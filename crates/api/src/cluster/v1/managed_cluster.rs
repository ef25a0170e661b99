//! ManagedCluster: a spoke as the hub knows it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Quantities;
use crate::{Condition, Unknown, names};

kind! {
    /// A cluster as the hub knows it: whether it was accepted, how to reach it, and what its agent reports.
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

/// Whether a cluster may join, and what should keep work away from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSpec {
    /// How the API server of the cluster is reached; empty where the hub cannot reach it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managed_cluster_client_configs: Vec<ClientConfig>,
    /// Whether the hub accepts the cluster's agent. Until then the agent gets no credentials and no
    /// permissions.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub hub_accepts_client: bool,
    /// Seconds between renewals of the cluster's lease; 0 means 60. Five missed renewals make the cluster
    /// unknown.
    #[serde(default = "default_lease_duration")]
    pub lease_duration_seconds: i32,
    /// What keeps placements that do not tolerate it away from the cluster.
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

/// How one API server of a cluster is reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientConfig {
    /// URL of the API server; https.
    pub url: String,
    /// Certificate authorities of the API server, PEM in base64; the system's where absent.
    #[serde(default, rename = "caBundle", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "byte"))]
    pub ca_bundle: Option<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// What keeps placements away from a cluster unless they tolerate it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// Name of the taint, such as bar or foo.example.com/bar.
    #[schemars(length(max = 316), extend("pattern" = names::QUALIFIED_NAME_PATTERN))]
    pub key: String,
    /// Value of the taint.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub value: String,
    /// What happens to placements that do not tolerate the taint.
    pub effect: TaintEffect,
    /// When the taint was added; set by the hub.
    #[serde(deserialize_with = "crate::lenient::optional_time", default)]
    #[schemars(extend("nullable" = true))]
    pub time_added: Option<Time>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// What happens to placements that do not tolerate a taint.
    pub enum TaintEffect {
        /// The cluster is not selected, and removed where it was.
        NoSelect = "NoSelect",
        /// The cluster is selected last.
        PreferNoSelect = "PreferNoSelect",
        /// The cluster is not selected anew, and kept where it was.
        NoSelectIfNew = "NoSelectIfNew",
    }
}

/// What the agent of a cluster reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterStatus {
    /// Whether the cluster is accepted, joined, available.
    #[serde(default, deserialize_with = "exact")]
    #[schemars(extend("default" = null, "x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// All resources of the cluster's nodes.
    #[serde(default, skip_serializing_if = "Quantities::is_empty")]
    #[schemars(with = "BTreeMap<String, Quantity>")]
    pub capacity: Quantities,
    /// The resources of its schedulable nodes.
    #[serde(default, skip_serializing_if = "Quantities::is_empty")]
    #[schemars(with = "BTreeMap<String, Quantity>")]
    pub allocatable: Quantities,
    /// What the cluster runs.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub version: ManagedClusterVersion,
    /// What the cluster says of itself.
    #[serde(default, deserialize_with = "exact", skip_serializing_if = "Vec::is_empty")]
    pub cluster_claims: Vec<ManagedClusterClaim>,
    /// Namespaces the cluster's sets want on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["clusterSet", "name"]))]
    pub managed_namespaces: Vec<ManagedNamespaceStatus>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Reads a list that takes no more memory than it needs: a hub holds as many as it has clusters.
fn exact<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let mut list = Vec::deserialize(deserializer)?;
    list.shrink_to_fit();
    Ok(list)
}

/// Versions of what a cluster runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ManagedClusterVersion {
    /// Version of Kubernetes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kubernetes: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// One thing a cluster says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ManagedClusterClaim {
    /// Name of the claim.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Value of the claim.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 1024))]
    pub value: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A namespace a cluster set wants on the cluster, and whether it is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedNamespaceStatus {
    /// Name of the namespace.
    #[schemars(length(min = 1, max = 63), extend("pattern" = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// The set that wants it.
    pub cluster_set: String,
    /// Whether the namespace is there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
