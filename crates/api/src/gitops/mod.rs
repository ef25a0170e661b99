//! `gitops.wheelwright.dev`: the kinds that Open Cluster Management does not have.

pub mod v1alpha1;
