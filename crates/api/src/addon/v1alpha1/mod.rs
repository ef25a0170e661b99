//! The stored version.

mod add_on_deployment_config;
mod add_on_template;
mod cluster_management_add_on;
mod config;
mod managed_cluster_add_on;

pub use add_on_deployment_config::{
    AddOnDeploymentConfig, AddOnDeploymentConfigSpec, ContainerResourceRequirements, CustomizedVariable,
    ImageMirror, NodePlacement, ProxyConfig,
};
pub use add_on_template::{
    AddOnTemplate, AddOnTemplateSpec, CurrentClusterBinding, CustomSignerRegistration, HubPermission,
    HubPermissionsBindingType, KubeClientRegistration, RegistrationSpec, RegistrationType, RoleRef,
    SigningCa, SingleNamespaceBinding,
};
pub use cluster_management_add_on::{
    ClusterManagementAddOn, ClusterManagementAddOnSpec, ClusterManagementAddOnStatus, ConfigMeta,
    DefaultConfigReference, InstallConfigReference, InstallProgression, InstallStrategy, InstallStrategyType,
    PlacementStrategy,
};
pub use config::{
    AddOnConfig, AddOnMeta, ConfigCoordinates, ConfigGroupResource, ConfigReferent, ConfigSpecHash, Subject,
};
pub use managed_cluster_add_on::{
    ConfigReference, HealthCheck, HealthCheckMode, KubeClientDriver, ManagedClusterAddOn,
    ManagedClusterAddOnSpec, ManagedClusterAddOnStatus, ObjectReference, RegistrationConfig,
};
