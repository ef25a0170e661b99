//! `work.open-cluster-management.io`: objects that the hub deploys to clusters.

pub mod v1;
pub mod v1alpha1;
