//! The options of an installation, and their record in a Deployment.

use api::names::INSTALL_OPTIONS_ANNOTATION;
use object::Object;
use serde::{Deserialize, Serialize};

/// The default rules of an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// The rules of Wheelwright.
    Default,
    /// The looser rules of OCM.
    Ocm,
}

/// The options of an installation. Chart values have the same names and defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstallationOptions {
    /// The image of the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The number of operator replicas. One leads and the others stand by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// The controllers to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controllers: Option<String>,
    /// The default rules for rollouts and removals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// The allowed hosts of repositories.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_hosts: Option<Vec<String>>,
    /// The OTLP collector for traces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otlp_endpoint: Option<String>,
    /// The namespaces for ConfigRepos, in addition to the operator's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_namespaces: Option<Vec<String>>,
    /// The service accounts that ConfigRepos may use, as namespace/name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_accounts: Option<Vec<String>>,
    /// The names of ClusterRoles and Roles that the operator may grant to agents of add-ons.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addon_roles: Option<Vec<String>>,
    /// The custom signers in templates for which the operator signs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_signers: Option<Vec<String>>,
    /// The add-ons whose agents may register by token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_add_ons: Option<Vec<String>>,
    /// True if the operator writes ClusterProfiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_profiles: Option<bool>,
    /// True to run the dashboard, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dashboard: Option<bool>,
    /// Environment variables of the operator and the dashboard, as NAME=VALUE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<String>>,
    /// Additional arguments of `wheelwright operator`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_args: Option<Vec<String>>,
}

impl InstallationOptions {
    /// Returns these options, with defaults from an existing installation.
    #[must_use]
    pub fn over(self, installed: Self) -> Self {
        let Self {
            image,
            replicas,
            controllers,
            profile,
            git_hosts,
            otlp_endpoint,
            config_namespaces,
            service_accounts,
            addon_roles,
            custom_signers,
            token_add_ons,
            cluster_profiles,
            dashboard,
            env,
            extra_args,
        } = self;
        Self {
            image: image.or(installed.image),
            replicas: replicas.or(installed.replicas),
            controllers: controllers.or(installed.controllers),
            profile: profile.or(installed.profile),
            git_hosts: git_hosts.or(installed.git_hosts),
            otlp_endpoint: otlp_endpoint.or(installed.otlp_endpoint),
            config_namespaces: config_namespaces.or(installed.config_namespaces),
            service_accounts: service_accounts.or(installed.service_accounts),
            addon_roles: addon_roles.or(installed.addon_roles),
            custom_signers: custom_signers.or(installed.custom_signers),
            token_add_ons: token_add_ons.or(installed.token_add_ons),
            cluster_profiles: cluster_profiles.or(installed.cluster_profiles),
            dashboard: dashboard.or(installed.dashboard),
            env: env.or(installed.env),
            extra_args: extra_args.or(installed.extra_args),
        }
    }

    /// Returns the options with which a Deployment was installed.
    ///
    /// # Errors
    /// Fails if the annotation was not written by an installation.
    pub fn from_deployment(deployment: &Object) -> Result<Self, serde_json::Error> {
        let annotations = deployment.annotations();
        annotations
            .get(INSTALL_OPTIONS_ANNOTATION)
            .map_or_else(|| Ok(Self::default()), |text| serde_json::from_str(text))
    }
}
