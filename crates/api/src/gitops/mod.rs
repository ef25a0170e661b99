//! `gitops.wheelwright.dev`: what Open Cluster Management has no place for.

pub mod v1alpha1;
