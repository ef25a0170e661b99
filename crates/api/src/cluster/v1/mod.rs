//! Clusters.

mod managed_cluster;
mod quantities;

pub use managed_cluster::{
    ClientConfig, ManagedCluster, ManagedClusterClaim, ManagedClusterSpec, ManagedClusterStatus,
    ManagedClusterVersion, ManagedNamespaceStatus, Taint, TaintEffect,
};
pub use quantities::Quantities;
