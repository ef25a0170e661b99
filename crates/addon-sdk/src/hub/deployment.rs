//! The add-on on one cluster: its current state on the hub, and the works and registrations that its program
//! wants.

use std::marker::PhantomData;
use std::sync::Arc;

use super::permissions;
use crate::addon::{AddOn, AddOnOptions, HealthProber, Installation};
use crate::config::{self, Assigned};
use crate::manifests;
use addon_lifecycle::{Permissions, read_live};
use api::addon::v1alpha1::{
    AddOnDeploymentConfigSpec, ClusterManagementAddOn, ConfigGroupResource, CustomSignerRegistration,
    HealthCheckMode, ManagedClusterAddOn, RegistrationSpec, RegistrationType,
};
use api::cluster::v1::ManagedCluster;
use api::names::ADDON_GROUP;
use api::work::v1::ManifestWorkSpec;
use engine::addon::config_refs;
use engine::addon::live::{AddOnPart, LiveAddOn};
use engine::addon::registration::{self, Sources};
use object::{Key, Metadata as _, Object};
use reconcile::{Read, View};

/// The add-on on one cluster, with the input of its deployment.
pub(super) struct AddOnDeployment<A> {
    pub(super) live: LiveAddOn,
    pub(super) cluster: Arc<ManagedCluster>,
    pub(super) permissions: Permissions,
    pub(super) options: AddOnOptions,
    pub(super) config: Assigned,
    addon_type: PhantomData<A>,
}

impl<A: AddOn> AddOnDeployment<A> {
    /// Reads the add-on. Returns `None` if the add-on or its cluster does not exist, or if its definition does not
    /// exist and the add-on is not being deleted.
    pub(super) fn read(key: &Key, view: &impl View) -> Read<Option<Self>> {
        let Some(addon) = view.get::<ManagedClusterAddOn>(key)? else { return Ok(None) };
        let cma = view.get::<ClusterManagementAddOn>(&Key::cluster(A::NAME))?;
        if cma.is_none() && !addon.is_terminating() {
            return Ok(None);
        }
        let Some(cluster) = view.get::<ManagedCluster>(&Key::cluster(&key.namespace))? else {
            return Ok(None);
        };
        let options = A::options();
        Ok(Some(Self {
            config: config::assigned(cma.as_deref(), &addon, view)?,
            permissions: permissions::read(key, view)?,
            addon_type: PhantomData,
            live: read_live(addon, options.hosted, view)?,
            options,
            cluster,
        }))
    }

    /// Returns the works of the add-on, and sets the status fields that the cluster's agent waits for.
    ///
    /// # Errors
    /// Returns the reason that there are no works, in OCM's words.
    pub(super) fn make(
        &self,
        new: &mut ManagedClusterAddOn,
        config: &AddOnDeploymentConfigSpec,
    ) -> Result<Vec<AddOnPart>, String> {
        let manifest_error = |reason| format!("failed to get manifest from agent interface: {reason}");
        let config = config::with_values(config.clone(), &self.live.addon).map_err(manifest_error)?;
        self.register(new, Vec::new(), &config);
        let installation = Installation { addon: new, cluster: &self.cluster, config: config.clone() };
        let manifests = A::manifests(&installation).map_err(manifest_error)?;
        if let Some(index) = manifests.iter().position(is_incomplete) {
            return Err(manifest_error(format!("object {index} has no apiVersion, kind or name")));
        }
        self.register(new, manifests.clone(), &config);
        let configs = config_refs::assigned(&self.live.addon).unwrap_or_default();
        let author = ManifestWorkSpec {
            manifest_configs: self.options.manifest_configs.clone(),
            ..ManifestWorkSpec::default()
        };
        self.live.parts(manifests, &configs, &author)
    }

    /// Sets the registrations, the namespace and the health check in the status.
    fn register(
        &self,
        new: &mut ManagedClusterAddOn,
        manifests: Vec<Object>,
        config: &AddOnDeploymentConfigSpec,
    ) {
        let manifests = manifests.into_iter().map(|manifest| manifest.0).collect();
        let registrations = registrations(&self.options, self.cluster.name());
        let template = manifests::template(A::NAME, manifests, registrations.into_iter());
        registration::fill(new, &Sources { template, config: Some(config.clone()) });
        let status = new.status.get_or_insert_default();
        status.supported_configs = vec![ConfigGroupResource {
            group: ADDON_GROUP.into(),
            resource: config_refs::DEPLOYMENT_CONFIGS.into(),
            ..ConfigGroupResource::default()
        }];
        status.health_check.get_or_insert_default().mode = match self.options.health {
            HealthProber::Lease | HealthProber::AgentProbe(_) => HealthCheckMode::Lease,
            HealthProber::Workloads | HealthProber::Probe(_) => HealthCheckMode::Customized,
        };
    }
}

fn is_incomplete(manifest: &Object) -> bool {
    manifest.api_version().is_empty() || manifest.kind().is_empty() || manifest.name().is_empty()
}

/// Returns the agent's registrations in the form that a template uses.
fn registrations(options: &AddOnOptions, cluster: &str) -> Vec<RegistrationSpec> {
    let kube_client = options
        .hub_permissions
        .as_ref()
        .map(|_| RegistrationSpec { r#type: RegistrationType::KubeClient, ..RegistrationSpec::default() });
    let custom = options.signers.iter().map(|signer| RegistrationSpec {
        r#type: RegistrationType::CustomSigner,
        custom_signer: Some(CustomSignerRegistration {
            signer_name: signer.name.to_owned(),
            subject: signer.subject.map(|subject| subject(cluster)),
            ..CustomSignerRegistration::default()
        }),
        ..RegistrationSpec::default()
    });
    kube_client.into_iter().chain(custom).collect()
}
