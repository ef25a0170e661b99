//! `work.open-cluster-management.io`: objects the hub wants on clusters.

pub mod v1;
pub mod v1alpha1;
