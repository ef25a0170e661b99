//! Clusters.

mod managed_cluster;

pub use managed_cluster::{
    ClientConfig, ManagedCluster, ManagedClusterClaim, ManagedClusterSpec, ManagedClusterStatus, ManagedClusterVersion,
    ManagedNamespaceStatus, Taint, TaintEffect,
};
