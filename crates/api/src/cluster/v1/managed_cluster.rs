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
    /// ManagedCluster is a cluster as the hub knows it: whether it was accepted, how to reach it, and what
    /// its agent reports.
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

/// The spec says whether a cluster may join, and which taints keep placements away from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSpec {
    /// Each entry says how the API server of the cluster is reached. The list is empty when the hub cannot
    /// reach it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managed_cluster_client_configs: Vec<ClientConfig>,
    /// True accepts the cluster. While it is false, which is the default, the agent gets no credentials and
    /// no permissions. Setting it needs the permission `managedclusters/accept`.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub hub_accepts_client: bool,
    /// The agent renews the lease of the cluster after so many seconds. The default is 60, and 0 means 60.
    /// After five missed renewals the availability of the cluster is Unknown.
    #[serde(default = "default_lease_duration")]
    pub lease_duration_seconds: i32,
    /// Each taint keeps placements that do not tolerate it away from the cluster.
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

/// ClientConfig says how one API server of a cluster is reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientConfig {
    /// This is the https URL of the API server.
    pub url: String,
    /// These certificate authorities sign the certificate of the API server, as PEM in base64. Without them,
    /// those of the system count.
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
    /// This names the taint, such as bar or foo.example.com/bar.
    #[schemars(length(max = 316), extend("pattern" = names::QUALIFIED_NAME_PATTERN))]
    pub key: String,
    /// The value tells taints of one key apart. It may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub value: String,
    /// The effect says what happens when a placement does not tolerate the taint.
    pub effect: TaintEffect,
    /// The hub writes when the taint was added. Tolerations in seconds count from this time.
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
    /// The effect says what happens when a placement does not tolerate the taint.
    pub enum TaintEffect {
        /// Placements do not select the cluster, and remove it from their decisions.
        NoSelect = "NoSelect",
        /// Placements select the cluster only when others are too few.
        PreferNoSelect = "PreferNoSelect",
        /// Placements do not select the cluster, but decisions that have it keep it.
        NoSelectIfNew = "NoSelectIfNew",
    }
}

/// The status holds what the agent of the cluster and the hub report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterStatus {
    /// The conditions say whether the cluster is accepted, has joined and is available.
    #[serde(default, deserialize_with = "exact")]
    #[schemars(extend("default" = null, "x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Capacity is the sum of the resources of all nodes.
    #[serde(default, skip_serializing_if = "Quantities::is_empty")]
    #[schemars(with = "BTreeMap<String, Quantity>")]
    pub capacity: Quantities,
    /// Allocatable is the sum of the resources that pods can use on schedulable nodes.
    #[serde(default, skip_serializing_if = "Quantities::is_empty")]
    #[schemars(with = "BTreeMap<String, Quantity>")]
    pub allocatable: Quantities,
    /// The version names what the cluster runs.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub version: ManagedClusterVersion,
    /// Each claim is a property that the cluster reports about itself. The agent copies it from a
    /// ClusterClaim.
    #[serde(default, deserialize_with = "exact", skip_serializing_if = "Vec::is_empty")]
    pub cluster_claims: Vec<ManagedClusterClaim>,
    /// These are the namespaces that the sets of the cluster want on it.
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
    /// This is the version of Kubernetes, such as v1.34.1.
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
    /// This is the name of the ClusterClaim, such as id.k8s.io.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// This is the value of the ClusterClaim.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 1024))]
    pub value: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ManagedNamespaceStatus says whether a namespace that a cluster set wants exists on the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedNamespaceStatus {
    /// This is the name of the namespace.
    #[schemars(length(min = 1, max = 63), extend("pattern" = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// This is the ManagedClusterSet that wants the namespace.
    pub cluster_set: String,
    /// The conditions say whether the namespace exists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
