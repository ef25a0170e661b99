//! The spec of a ClusterManager, parsed once.

use k8s_openapi::api::core::v1::ResourceRequirements;
use serde_json::{Map, Value};

use crate::installation::InstallationOptions;
use crate::klusterlet::resources;
use api::addon::v1alpha1::NodePlacement;
use api::names::{HUB_IMAGE_ANNOTATION, INSTALL_OPTIONS_ANNOTATION};
use api::operator::v1::{
    AddOnManagerConfiguration, ClusterManager, ClusterManagerDeployOption, ClusterManagerSpec, CsrConfig,
    FeatureGate, FeatureGateMode, InstallMode, PlacementConfiguration, RegistrationDriverHub,
    RegistrationHubConfiguration, WorkConfiguration,
};
use object::Metadata as _;

/// The gate that lets the clusters of users join without an approval.
const AUTO_APPROVAL: &str = "ManagedClusterAutoApproval";
/// The gate that publishes clusters as ClusterProfiles.
const CLUSTER_PROFILE: &str = "ClusterProfile";

/// The gates of OCM's hub side and their effect here. Most features are always on.
const GATES: [(&str, Effect); 14] = [
    ("AddonManagement", Effect::AlwaysOn),
    ("CleanUpCompletedManifestWork", Effect::AlwaysOn),
    ("CloudEventsDrivers", Effect::Absent),
    ("ClusterImporter", Effect::Absent),
    (CLUSTER_PROFILE, Effect::Read),
    ("ClusterProperty", Effect::Absent),
    ("DefaultClusterSet", Effect::AlwaysOn),
    (AUTO_APPROVAL, Effect::Read),
    ("ManifestWorkReplicaSet", Effect::AlwaysOn),
    ("NilExecutorValidating", Effect::Absent),
    ("PlacementDebugServer", Effect::Absent),
    ("ResourceCleanup", Effect::AlwaysOn),
    ("SIGPlacementDecision", Effect::Absent),
    ("V1beta1CSRAPICompatibility", Effect::Absent),
];

/// The effect of a gate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// The gate turns a feature on or off.
    Read,
    /// The feature cannot be turned off.
    AlwaysOn,
    /// The feature does not exist.
    Absent,
}

/// The parsed spec of a ClusterManager.
#[derive(Clone, Debug, Default)]
pub struct ClusterManagerSettings {
    /// The name of the ClusterManager.
    pub name: String,
    /// The options of the installation.
    pub options: InstallationOptions,
    pub(super) node_placement: NodePlacement,
    /// The resources of containers; `None` for the defaults of the chart.
    pub(super) resources: Option<ResourceRequirements>,
    /// The users whose clusters join without an approval.
    pub(super) auto_approved: Vec<String>,
    /// The fields that are set but have no effect, each with the reason.
    pub ignored: Vec<String>,
    /// The unknown feature gates.
    pub unknown_gates: Vec<String>,
}

/// A ClusterManager that cannot be installed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterManagerRefusal {
    /// The hub side would run on another cluster.
    #[error(
        "the mode {0} is not supported; run `wheelwright operator --kubeconfig` where the hub side should run"
    )]
    Mode(String),
    /// The hub side does not have this driver.
    #[error("the hub side does not support the driver {0}; use csr for registration and kube for works")]
    Driver(String),
    /// The annotation with the options of the installation is invalid.
    #[error("the annotation {INSTALL_OPTIONS_ANNOTATION}: {0}")]
    Options(String),
}

impl ClusterManagerSettings {
    /// Returns settings with only the name of a ClusterManager, which determines the names of its objects.
    pub fn named(manager: &ClusterManager) -> Self {
        Self { name: manager.name().to_owned(), ..Self::default() }
    }

    /// Parses a spec.
    ///
    /// # Errors
    /// Fails if the hub side cannot run with this spec.
    pub fn read(manager: &ClusterManager) -> Result<Self, ClusterManagerRefusal> {
        let ClusterManagerSpec {
            registration_image_pull_spec,
            work_image_pull_spec,
            placement_image_pull_spec,
            add_on_manager_image_pull_spec,
            node_placement,
            deploy_option,
            registration_configuration,
            work_configuration,
            add_on_manager_configuration,
            placement_configuration,
            server_configuration,
            resource_requirement,
            unknown: _,
        } = manager.spec.clone();
        let ClusterManagerDeployOption { mode, default, hosted: _, unknown: _ } =
            deploy_option.unwrap_or_default();
        match mode {
            InstallMode::Default => {}
            mode @ (InstallMode::Hosted
            | InstallMode::Singleton
            | InstallMode::SingletonHosted
            | InstallMode::Other(_)) => return Err(ClusterManagerRefusal::Mode(mode.to_string())),
        }
        let mut settings = Self {
            node_placement: node_placement.unwrap_or_default(),
            resources: resource_requirement.and_then(resources),
            ..Self::named(manager)
        };
        settings.options = options(manager).map_err(ClusterManagerRefusal::Options)?;
        let given = [
            ("registrationImagePullSpec", !registration_image_pull_spec.is_empty()),
            ("workImagePullSpec", !work_image_pull_spec.is_empty()),
            ("placementImagePullSpec", !placement_image_pull_spec.is_empty()),
            ("addOnManagerImagePullSpec", !add_on_manager_image_pull_spec.is_empty()),
        ];
        for (field, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
            settings.ignore(field, &format!("the annotation {HUB_IMAGE_ANNOTATION} names the image"));
        }
        if default.is_some_and(|values| !values.is_empty()) {
            settings.ignore("deployOption.default", "there are no admission webhooks to configure");
        }
        if server_configuration.is_some_and(|values| !values.is_empty()) {
            settings.ignore("serverConfiguration", "there is no gRPC server");
        }
        settings.read_registration(registration_configuration.unwrap_or_default())?;
        let WorkConfiguration { feature_gates, work_driver, unknown: _ } =
            work_configuration.unwrap_or_default();
        if !["", "kube"].contains(&work_driver.as_str()) {
            return Err(ClusterManagerRefusal::Driver(work_driver));
        }
        settings.read_gates("workConfiguration", &feature_gates);
        let AddOnManagerConfiguration { feature_gates, unknown: _ } =
            add_on_manager_configuration.unwrap_or_default();
        settings.read_gates("addOnManagerConfiguration", &feature_gates);
        let PlacementConfiguration { feature_gates, unknown: _ } =
            placement_configuration.unwrap_or_default();
        settings.read_gates("placementConfiguration", &feature_gates);
        Ok(settings)
    }

    fn ignore(&mut self, field: &str, reason: &str) {
        self.ignored.push(format!("{field}: {reason}"));
    }

    fn read_registration(
        &mut self,
        configuration: RegistrationHubConfiguration,
    ) -> Result<(), ClusterManagerRefusal> {
        let RegistrationHubConfiguration {
            auto_approve_users,
            feature_gates,
            registration_drivers,
            importer_configuration,
            unknown: _,
        } = configuration;
        let mut users = auto_approve_users;
        for driver in registration_drivers {
            let RegistrationDriverHub { auth_type, csr, awsirsa: _, grpc: _, unknown: _ } = driver;
            if !["", "csr"].contains(&auth_type.as_str()) {
                return Err(ClusterManagerRefusal::Driver(auth_type));
            }
            let CsrConfig { auto_approved_identities, unknown: _ } = csr.unwrap_or_default();
            users.extend(auto_approved_identities);
        }
        if importer_configuration.is_some_and(|values| !values.is_empty()) {
            self.ignore("registrationConfiguration.importerConfiguration", "there is no cluster importer");
        }
        self.read_gates("registrationConfiguration", &feature_gates);
        let enables = |name: &str| feature_gates.iter().any(|gate| gate.feature == name && is_on(gate));
        if enables(CLUSTER_PROFILE) {
            self.options.cluster_profiles = Some(true);
        }
        if enables(AUTO_APPROVAL) {
            self.auto_approved = users;
        } else if !users.is_empty() {
            let reason = format!("enable the feature gate {AUTO_APPROVAL}");
            self.ignore("registrationConfiguration.autoApproveUsers", &reason);
        }
        Ok(())
    }

    fn read_gates(&mut self, part: &str, gates: &[FeatureGate]) {
        for gate in gates {
            let FeatureGate { feature, mode: _, unknown: _ } = gate;
            let effect = GATES.iter().find(|(name, _)| name == feature).map(|(_, effect)| *effect);
            let field = format!("{part}.featureGates[{feature}]");
            match effect {
                None => self.unknown_gates.push(format!("{part}: {feature}")),
                Some(Effect::Read) => {}
                Some(Effect::AlwaysOn) if is_on(gate) => {}
                Some(Effect::Absent) if !is_on(gate) => {}
                Some(Effect::AlwaysOn) => self.ignore(&field, "the feature is always on"),
                Some(Effect::Absent) => self.ignore(&field, "Wheelwright does not have this feature"),
            }
        }
    }
}

/// Parses the options of the installation from the annotations.
fn options(manager: &ClusterManager) -> Result<InstallationOptions, String> {
    let mut options = InstallationOptions::default();
    if let Some(text) = manager.annotation(INSTALL_OPTIONS_ANNOTATION) {
        options = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let given: Map<String, Value> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let known = serde_json::to_value(&options).map_err(|error| error.to_string())?;
        if let Some((unknown, _)) =
            given.iter().find(|(name, value)| !value.is_null() && known.get(name).is_none())
        {
            return Err(format!("unknown option {unknown:?}"));
        }
    }
    if let Some(image) = manager.annotation(HUB_IMAGE_ANNOTATION) {
        options.image = Some(image.to_owned());
    }
    Ok(options)
}

fn is_on(gate: &FeatureGate) -> bool {
    gate.mode == FeatureGateMode::Enable
}
