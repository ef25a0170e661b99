//! `cluster.open-cluster-management.io`: clusters, sets of them, and where things should go.

pub mod v1;
pub mod v1alpha1;
pub mod v1beta1;
pub mod v1beta2;
