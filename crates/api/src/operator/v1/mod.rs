//! ClusterManager and Klusterlet, from which a registration operator installs a hub and an agent.

mod cluster_manager;
mod klusterlet;
mod parts;
mod registration_configuration;

pub use cluster_manager::{
    AddOnManagerConfiguration, ClusterManager, ClusterManagerDeployOption, ClusterManagerSpec, CsrConfig,
    PlacementConfiguration, RegistrationDriverHub, RegistrationHubConfiguration, WorkConfiguration,
};
pub use klusterlet::{
    HubApiServerHostAlias, Klusterlet, KlusterletDeployOption, KlusterletSpec, ServerUrl,
    WorkAgentConfiguration,
};
pub use parts::{
    FeatureGate, FeatureGateMode, GenerationStatus, InstallMode, OperatorStatus, RelatedResource,
    ResourceQosClass, ResourceRequirement,
};
pub use registration_configuration::{
    AddOnRegistrationDriver, BootstrapKubeConfigs, BootstrapKubeConfigsType, ClusterClaimConfiguration,
    KubeConfigSecret, LocalSecretsConfig, RegistrationConfiguration, RegistrationDriver, TokenConfig,
};
