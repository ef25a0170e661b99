//! The spec of a Klusterlet, parsed once.

use k8s_openapi::api::core::v1::ResourceRequirements;

use api::addon::v1alpha1::NodePlacement;
use api::names::{
    AGENT_ANNOTATION_PREFIX, AGENT_NAMESPACE, KLUSTERLET_FINALIZER, KLUSTERLET_HOSTED_FINALIZER,
};
use api::operator::v1::{
    AddOnRegistrationDriver, BootstrapKubeConfigs, BootstrapKubeConfigsType, ClusterClaimConfiguration,
    FeatureGate, FeatureGateMode, HubApiServerHostAlias, InstallMode, Klusterlet, KlusterletDeployOption,
    KlusterletSpec, KubeConfigSecret, LocalSecretsConfig, RegistrationConfiguration, RegistrationDriver,
    ResourceQosClass, ResourceRequirement, ServerUrl, TokenConfig, WorkAgentConfiguration,
};
use object::Metadata as _;

/// The default image of an agent.
const IMAGE: &str = concat!("wheelwright-agent:", env!("CARGO_PKG_VERSION"));
/// The feature gates of the registration agent.
const REGISTRATION_GATES: [&str; 5] =
    ["AddonManagement", "ClusterClaim", "ClusterProperty", "MultipleHubs", "V1beta1CSRAPICompatibility"];
/// The feature gates of the work agent.
const WORK_GATES: [&str; 2] = ["ExecutorValidatingCaches", "RawFeedbackJsonString"];
/// The default rates in OCM's definition: queries per second, and burst.
const DEFAULT_RATES: [i32; 2] = [50, 100];

/// The parsed spec of a Klusterlet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KlusterletSettings {
    /// The name of the Klusterlet.
    pub name: String,
    /// The namespace of the agent.
    pub namespace: String,
    /// True if the agent runs on this cluster for another cluster.
    pub is_hosted: bool,
    /// True if one Deployment runs both registration and work.
    pub is_singleton: bool,
    pub(super) cluster: String,
    pub(super) registration_image: String,
    pub(super) work_image: String,
    pub(super) image: String,
    /// The arguments of the registration agent, except those with file paths.
    pub(super) registration: Vec<String>,
    /// The arguments of the work agent, except those with file paths.
    pub(super) work: Vec<String>,
    /// The labels for a ManagedCluster that the agent creates, as KEY=VALUE.
    pub(super) cluster_labels: Vec<String>,
    /// The secrets with bootstrap kubeconfigs, if there are several.
    pub bootstrap_secrets: Vec<String>,
    pub(super) node_placement: NodePlacement,
    pub(super) host_alias: Option<HubApiServerHostAlias>,
    /// The resources of containers; `None` for the operator's defaults.
    pub(super) resources: Option<ResourceRequirements>,
    pub(super) priority_class: String,
    /// The fields that are set but have no effect, each with the reason.
    pub ignored: Vec<String>,
    /// The unknown feature gates, each with its part of the agent.
    pub unknown_gates: Vec<String>,
}

/// A Klusterlet that cannot be installed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KlusterletRefusal {
    /// The mode does not exist.
    #[error("deployOption.mode: unknown mode {0}; use Default, Singleton, Hosted or SingletonHosted")]
    Mode(String),
    /// The agent would move between its cluster and a hosting cluster.
    #[error(
        "deployOption.mode: an agent does not move between its cluster and a hosting cluster; delete the \
         Klusterlet and create another one"
    )]
    Move,
    /// The agent does not have this driver.
    #[error(
        "registrationConfiguration.registrationDriver: the agent does not support the driver {0}; use csr"
    )]
    Driver(String),
}

impl KlusterletSettings {
    /// Returns the settings that a removal needs: names and the image. A hosted agent runs in the namespace with
    /// the name of its Klusterlet.
    pub fn named(klusterlet: &Klusterlet) -> Self {
        let name = klusterlet.name().to_owned();
        // The mode may have changed since the agent was installed, but not the finalizers.
        let is_hosted = if klusterlet.has_finalizer(KLUSTERLET_FINALIZER) {
            klusterlet.has_finalizer(KLUSTERLET_HOSTED_FINALIZER)
        } else {
            is_hosted(klusterlet)
        };
        let namespace = match klusterlet.spec.namespace.as_str() {
            _ if is_hosted => name.clone(),
            "" => AGENT_NAMESPACE.to_owned(),
            namespace => namespace.to_owned(),
        };
        let image = or(klusterlet.spec.image_pull_spec.clone(), IMAGE);
        Self { name, namespace, is_hosted, image, ..Self::default() }
    }

    /// Parses a spec.
    ///
    /// # Errors
    /// Fails if the agent cannot run with this spec.
    pub fn read(klusterlet: &Klusterlet) -> Result<Self, KlusterletRefusal> {
        let KlusterletSpec {
            namespace,
            registration_image_pull_spec,
            work_image_pull_spec,
            image_pull_spec: _,
            cluster_name,
            external_server_urls,
            node_placement,
            deploy_option,
            registration_configuration,
            work_configuration,
            hub_api_server_host_alias,
            resource_requirement,
            priority_class_name,
            unknown: _,
        } = klusterlet.spec.clone();
        let KlusterletDeployOption { mode, unknown: _ } = deploy_option.unwrap_or_default();
        let is_singleton = match mode {
            InstallMode::Default | InstallMode::Hosted => false,
            InstallMode::Singleton | InstallMode::SingletonHosted => true,
            InstallMode::Other(mode) => return Err(KlusterletRefusal::Mode(mode)),
        };
        let named = Self::named(klusterlet);
        if named.is_hosted != is_hosted(klusterlet) {
            return Err(KlusterletRefusal::Move);
        }
        let mut settings = Self {
            is_singleton,
            cluster: cluster_name,
            registration_image: or(registration_image_pull_spec, IMAGE),
            work_image: or(work_image_pull_spec, IMAGE),
            node_placement: node_placement.unwrap_or_default(),
            host_alias: hub_api_server_host_alias,
            resources: resource_requirement.and_then(resources),
            priority_class: priority_class_name,
            ..named
        };
        if settings.is_hosted && !namespace.is_empty() {
            settings
                .ignore("namespace", "a hosted agent runs in the namespace with the name of its Klusterlet");
        }
        settings.read_addresses(external_server_urls);
        settings.read_registration(registration_configuration.unwrap_or_default())?;
        settings.read_work(work_configuration.unwrap_or_default());
        Ok(settings)
    }

    fn ignore(&mut self, field: &str, reason: &str) {
        self.ignored.push(format!("{field}: {reason}"));
    }

    fn read_addresses(&mut self, servers: Vec<ServerUrl>) {
        let mut urls = Vec::new();
        let mut has_bundle = false;
        for ServerUrl { url, ca_bundle, unknown: _ } in servers {
            urls.push(url);
            has_bundle |= ca_bundle.is_some();
        }
        if has_bundle {
            self.ignore(
                "externalServerURLs.caBundle",
                "the agent sends the certificate authorities of its own kubeconfig",
            );
        }
        if !urls.is_empty() {
            self.registration.push(format!("--spoke-external-server-urls={}", urls.join(",")));
        }
    }

    fn read_registration(
        &mut self,
        configuration: RegistrationConfiguration,
    ) -> Result<(), KlusterletRefusal> {
        let RegistrationConfiguration {
            client_cert_expiration_seconds,
            feature_gates,
            cluster_annotations,
            cluster_labels,
            kube_api_qps,
            kube_api_burst,
            bootstrap_kube_configs,
            registration_driver,
            add_on_kube_client_registration_driver,
            cluster_claim_configuration,
            unknown: _,
        } = configuration;
        if let Some(seconds) = client_cert_expiration_seconds.filter(|seconds| *seconds != 0) {
            self.registration.push(format!("--client-cert-expiration-seconds={seconds}"));
        }
        let has_several_hubs = feature_gates
            .iter()
            .any(|gate| gate.feature == "MultipleHubs" && gate.mode == FeatureGateMode::Enable);
        let gates = self.gates(&feature_gates, &REGISTRATION_GATES, "registration");
        self.registration.extend(gates);
        let (allowed, dropped): (Vec<_>, Vec<_>) =
            cluster_annotations.into_iter().partition(|(key, _)| key.starts_with(AGENT_ANNOTATION_PREFIX));
        if !allowed.is_empty() {
            let pairs: Vec<_> = allowed.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
            self.registration.push(format!("--cluster-annotations={}", pairs.join(",")));
        }
        for (key, _) in dropped {
            let reason = format!("its key does not begin with {AGENT_ANNOTATION_PREFIX}");
            self.ignore(&format!("registrationConfiguration.clusterAnnotations[{key}]"), &reason);
        }
        self.cluster_labels = cluster_labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        self.ignore_rates("registrationConfiguration.kubeAPI", kube_api_qps, kube_api_burst);
        if let Some(configs) = bootstrap_kube_configs {
            self.read_bootstrap(configs, has_several_hubs);
        }
        let RegistrationDriver { auth_type, aws_irsa: _, unknown: _ } =
            registration_driver.unwrap_or_default();
        if !["", "csr"].contains(&auth_type.as_str()) {
            return Err(KlusterletRefusal::Driver(auth_type));
        }
        let AddOnRegistrationDriver { auth_type, token, unknown: _ } =
            add_on_kube_client_registration_driver.unwrap_or_default();
        if !auth_type.is_empty() {
            self.registration.push(format!("--addon-kubeclient-registration-auth={auth_type}"));
        }
        let TokenConfig { expiration_seconds, unknown: _ } = token.unwrap_or_default();
        if expiration_seconds.is_some() {
            let field = "registrationConfiguration.addOnKubeClientRegistrationDriver.token.expirationSeconds";
            self.ignore(field, "the agent determines the lifetime of its tokens");
        }
        if let Some(claims) = cluster_claim_configuration {
            let ClusterClaimConfiguration {
                max_custom_cluster_claims,
                reserved_cluster_claim_suffixes,
                unknown: _,
            } = claims;
            self.registration.push(format!("--max-custom-cluster-claims={max_custom_cluster_claims}"));
            if !reserved_cluster_claim_suffixes.is_empty() {
                let suffixes = reserved_cluster_claim_suffixes.join(",");
                self.registration.push(format!("--reserved-cluster-claim-suffixes={suffixes}"));
            }
        }
        Ok(())
    }

    fn read_bootstrap(&mut self, configs: BootstrapKubeConfigs, has_several_hubs: bool) {
        let BootstrapKubeConfigs { type_, local_secrets, unknown: _ } = configs;
        let local_secrets = match type_ {
            BootstrapKubeConfigsType::LocalSecrets => local_secrets.unwrap_or_default(),
            BootstrapKubeConfigsType::None | BootstrapKubeConfigsType::Other(_) => return,
        };
        if !has_several_hubs {
            let reason = "enable the feature gate MultipleHubs";
            self.ignore("registrationConfiguration.bootstrapKubeConfigs", reason);
            return;
        }
        let LocalSecretsConfig { kube_config_secrets, hub_connection_timeout_seconds, unknown: _ } =
            local_secrets;
        self.bootstrap_secrets =
            kube_config_secrets.into_iter().map(|KubeConfigSecret { name, unknown: _ }| name).collect();
        if hub_connection_timeout_seconds != 0 {
            let timeout = format!("--hub-connection-timeout-seconds={hub_connection_timeout_seconds}");
            self.registration.push(timeout);
        }
    }

    fn read_work(&mut self, configuration: WorkAgentConfiguration) {
        let WorkAgentConfiguration {
            feature_gates,
            kube_api_qps,
            kube_api_burst,
            hub_kube_api_qps,
            hub_kube_api_burst,
            applied_manifest_work_eviction_grace_period,
            status_sync_interval,
            unknown: _,
        } = configuration;
        let gates = self.gates(&feature_gates, &WORK_GATES, "work");
        self.work.extend(gates);
        self.ignore_rates("workConfiguration.kubeAPI", kube_api_qps, kube_api_burst);
        self.ignore_rates("workConfiguration.hubKubeAPI", hub_kube_api_qps, hub_kube_api_burst);
        if !applied_manifest_work_eviction_grace_period.is_empty() {
            let period = applied_manifest_work_eviction_grace_period;
            self.work.push(format!("--appliedmanifestwork-eviction-grace-period={period}"));
        }
        if !status_sync_interval.is_empty() {
            self.ignore("workConfiguration.statusSyncInterval", "the agent watches its applied objects");
        }
    }

    /// Lists rates as ignored if they differ from OCM's defaults.
    fn ignore_rates(&mut self, prefix: &str, qps: Option<i32>, burst: Option<i32>) {
        for ((field, value), default) in [("QPS", qps), ("Burst", burst)].into_iter().zip(DEFAULT_RATES) {
            if value.is_some_and(|value| value != default) {
                self.ignore(&format!("{prefix}{field}"), "the agent does not limit its request rate");
            }
        }
    }

    /// Returns the flag for known gates, and records the unknown ones.
    fn gates(&mut self, gates: &[FeatureGate], known: &[&str], part: &str) -> Option<String> {
        let mut flags = Vec::new();
        for FeatureGate { feature, mode, unknown: _ } in gates {
            if known.contains(&feature.as_str()) {
                flags.push(format!("{feature}={}", *mode == FeatureGateMode::Enable));
            } else {
                self.unknown_gates.push(format!("{part}: {feature}"));
            }
        }
        (!flags.is_empty()).then(|| format!("--feature-gates={}", flags.join(",")))
    }
}

fn or(text: String, default: &str) -> String {
    if text.is_empty() { default.to_owned() } else { text }
}

fn is_hosted(klusterlet: &Klusterlet) -> bool {
    match klusterlet.spec.deploy_option.as_ref().map(|option| &option.mode) {
        Some(InstallMode::Hosted | InstallMode::SingletonHosted) => true,
        None | Some(InstallMode::Default | InstallMode::Singleton | InstallMode::Other(_)) => false,
    }
}

/// Returns the container resources of a requirement; `None` for the operator's defaults.
pub(crate) fn resources(requirement: ResourceRequirement) -> Option<ResourceRequirements> {
    let ResourceRequirement { type_, resource_requirements, unknown: _ } = requirement;
    match type_ {
        ResourceQosClass::Default | ResourceQosClass::Other(_) => None,
        ResourceQosClass::BestEffort => Some(ResourceRequirements::default()),
        ResourceQosClass::ResourceRequirement => Some(resource_requirements.unwrap_or_default()),
    }
}
