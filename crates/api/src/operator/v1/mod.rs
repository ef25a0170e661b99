//! Klusterlet, from which a registration operator installs an agent.

mod klusterlet;
mod parts;
mod registration_configuration;

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
