//! The controllers of the hub, one per file or folder.

pub(crate) mod addon_annotation;
pub mod addon_config;
pub(crate) mod addon_deploy;
pub(crate) mod addon_feature;
pub(crate) mod addon_health;
pub(crate) mod addon_install;
pub(crate) mod addon_token;
pub(crate) mod argo_pull;
pub(crate) mod bootstrap;
pub(crate) mod cluster;
pub(crate) mod cluster_decision;
pub(crate) mod cluster_defaults;
pub(crate) mod cluster_lease;
pub(crate) mod cluster_profile;
pub(crate) mod cluster_secret;
pub(crate) mod clusterset;
pub(crate) mod clusterset_binding;
pub(crate) mod commit_status;
pub mod config_repo;
pub mod csr;
pub(crate) mod managed_namespaces;
pub(crate) mod notification;
pub mod overview;
pub mod placement;
pub(crate) mod policy_status;
pub mod replica_set;
pub mod report;
pub(crate) mod work_ttl;

#[cfg(test)]
pub(crate) mod tests;
