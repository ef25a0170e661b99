//! The version that OCM's controllers read and write.
//!
//! Types that both versions share are defined in [`v1alpha1`](super::v1alpha1).

mod add_on_deployment_config;
mod add_on_template;
mod cluster_management_add_on;
mod managed_cluster_add_on;

pub use add_on_deployment_config::AddOnDeploymentConfig;
pub use add_on_template::AddOnTemplate;
pub use cluster_management_add_on::{
    ClusterManagementAddOn, ClusterManagementAddOnSpec, ClusterManagementAddOnStatus, DefaultConfig,
};
pub use managed_cluster_add_on::{
    ConfigReference, CustomSignerConfig, CustomSignerSubject, KubeClientConfig, KubeClientSubject,
    ManagedClusterAddOn, ManagedClusterAddOnSpec, ManagedClusterAddOnStatus, RegistrationConfig,
    RegistrationType,
};
