//! The HTTP front of a store: what kubectl, agents and tests talk to like to any Kubernetes API server.

mod kubeconfig;

pub use kubeconfig::{Credential, kubeconfig, kubeconfig_yaml};
