//! ClusterClaim: a property that a spoke reports about itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Unknown, names};

kind! {
    /// ClusterClaim is a property that a cluster reports about itself. It exists on the cluster, and the agent
    /// copies it to the status of the ManagedCluster.
    ClusterClaim {
        group: names::CLUSTER_GROUP,
        version: "v1alpha1",
        plural: "clusterclaims",
        scope: Cluster,
        spec: ClusterClaimSpec,
    }
}

/// Value of the claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterClaimSpec {
    /// Value of 1 to 1024 characters. The name of the object is the name of the claim.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 1024))]
    pub value: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
