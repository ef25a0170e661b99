//! Sets of clusters and the namespaces that may use them.

mod managed_cluster_set;
mod managed_cluster_set_binding;

pub use managed_cluster_set::{
    ClusterSelector, ManagedClusterSet, ManagedClusterSetSpec, ManagedClusterSetStatus, ManagedNamespace,
    SelectorType,
};
pub use managed_cluster_set_binding::{
    ManagedClusterSetBinding, ManagedClusterSetBindingSpec, ManagedClusterSetBindingStatus,
};
