//! `multicluster.x-k8s.io`: the cluster inventory of SIG Multicluster.

pub mod v1alpha1;
