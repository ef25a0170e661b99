//! ClusterClaim: a fact that a spoke tells about itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Unknown, names};

kind! {
    /// Something a cluster says of itself, on the cluster; the agent copies it to the hub.
    ClusterClaim {
        group: names::CLUSTER_GROUP,
        version: "v1alpha1",
        plural: "clusterclaims",
        scope: Cluster,
        spec: ClusterClaimSpec,
    }
}

/// What is claimed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterClaimSpec {
    /// Value of the claim.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 1024))]
    pub value: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
