//! Deploys an add-on to its clusters: registrations, permissions, ManifestWorks, and their health.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};

use super::{hosting, leftovers, permissions, status};
use crate::addon::{AddOn, Health, Installation, Options};
use crate::config::{self, Assigned};
use crate::manifests;
use api::addon::v1alpha1::{
    AddOnDeploymentConfigSpec, ClusterManagementAddOn, ConfigGroupResource, CustomSignerRegistration,
    HealthCheckMode, ManagedClusterAddOn, RegistrationSpec, RegistrationType,
};
use api::cluster::v1::ManagedCluster;
use api::names::{
    ADDON_GROUP, ADDON_NAME_LABEL, ADDON_NAMESPACE_LABEL, ADDON_PRE_DELETE, HOSTING_CLEANUP_FINALIZER,
    HOSTING_PRE_DELETE_FINALIZER,
};
use api::work::v1::{ManifestWork, ManifestWorkSpec};
use engine::addon::hosting::{Divided, Host, Place, Target, addon_of, divide};
use engine::addon::registration::{self, Sources};
use engine::addon::{config_refs, hook, works};
use object::{Key, Metadata as _, Object, ObjectRef};
use reconcile::{Action, Controller, Executed, Plan, Query, Read, StatusWrite, View, Watches};

pub(crate) struct DeployController<A>(PhantomData<A>);

impl<A: AddOn> Controller for DeployController<A> {
    const NAME: &'static str = "addon-sdk-deploy";
    type Primary = ManagedClusterAddOn;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManifestWork>(|change, _| {
            let addon = change.latest().and_then(addon_of).filter(|addon| addon.name == A::NAME);
            addon.into_iter().collect()
        });
        watches.on::<ManagedCluster>(|change, view| {
            let Some(cluster) = change.latest() else { return Vec::new() };
            let mut keys = vec![Key::namespaced(cluster.name(), A::NAME)];
            let differs = |one: &ManagedCluster| (one.is_terminating(), one.spec.hub_accepts_client);
            if A::options().hosted && change.differs_in(differs) {
                let is_hosted = |addon: &Arc<ManagedClusterAddOn>| {
                    addon.name() == A::NAME && hosting::named::<A>(addon) == Some(cluster.name())
                };
                let addons = view.readable::<ManagedClusterAddOn>(Query::ALL).into_iter();
                keys.extend(addons.filter(is_hosted).map(|addon| Key::of(&*addon)));
            }
            keys
        });
        watches.on::<ClusterManagementAddOn>(|change, view| match change.latest() {
            Some(cma) if cma.name() == A::NAME => installations::<A>(view),
            Some(_) | None => Vec::new(),
        });
        watches.on::<Role>(|change, _| change.latest().and_then(permissions::addon_of).into_iter().collect());
        watches.on::<RoleBinding>(|change, _| {
            change.latest().and_then(permissions::addon_of).into_iter().collect()
        });
        watches.on_observed(|change, view| {
            let is_config = change.sides().any(|object| object.gvk() == config::config_gvk());
            if is_config { installations::<A>(view) } else { Vec::new() }
        });
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        if key.name != A::NAME {
            return Ok(Plan::nothing());
        }
        let configs = ObjectRef { gvk: config::config_gvk(), key: Key::default() };
        let observe = vec![config::config_gvk()];
        if view.observed(&configs).is_err() {
            // This plan asks for the kind, which wakes the key when it is read.
            return Ok(Plan { observe, ..Plan::nothing() });
        }
        let plan = match Deployment::<A>::read(key, view)? {
            Some(deployment) if deployment.addon.is_terminating() => deployment.finish(now),
            Some(deployment) => deployment.plan(now),
            None => released::<A>(key, view, now)?,
        };
        Ok(Plan { observe, ..plan })
    }

    fn conclude(key: &Key, view: &impl View, done: &Executed, now: Timestamp) -> Read<Option<StatusWrite>> {
        if done.is_success() {
            return Ok(done.plan.status.clone());
        }
        let addon = view.get::<ManagedClusterAddOn>(key)?;
        Ok(addon.and_then(|addon| status::refused_permission(&addon, done, now)))
    }
}

/// Returns the add-on on every cluster that has it.
pub(super) fn installations<A: AddOn>(view: &impl View) -> Vec<Key> {
    let mut keys = view.keys::<ManagedClusterAddOn>(Query::ALL);
    keys.retain(|key| key.name == A::NAME);
    keys
}

/// Lets a deleted add-on of a cluster that is gone go: no job can run there. Deletes what an add-on leaves
/// that is gone itself.
fn released<A: AddOn>(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
    let Some(addon) = view.get::<ManagedClusterAddOn>(key)? else { return leftovers::delete(key, view, now) };
    let cluster = view.get::<ManagedCluster>(&Key::cluster(&key.namespace))?;
    if !addon.is_terminating() || cluster.is_some() {
        return Ok(Plan::nothing());
    }
    Ok(hosting::clean(&addon, &hosting::works::<A>(&addon, view)?, false, now))
}

/// The add-on on one cluster, and the input of its deployment.
pub(super) struct Deployment<A> {
    pub(super) addon: Arc<ManagedClusterAddOn>,
    pub(super) cluster: Arc<ManagedCluster>,
    /// The cluster that hosts a part of it.
    pub(super) host: Host,
    /// The works on its cluster.
    managed: Vec<Arc<ManifestWork>>,
    /// The works of the part that other clusters host or hosted.
    pub(super) hosted: Vec<Arc<ManifestWork>>,
    pub(super) permissions: permissions::Held,
    pub(super) options: Options,
    pub(super) config: Assigned,
    addon_type: PhantomData<A>,
}

impl<A: AddOn> Deployment<A> {
    /// Reads the add-on. Returns `None` where the hub lacks the add-on or its cluster, or where it lacks the
    /// definition and the add-on is not deleted.
    fn read(key: &Key, view: &impl View) -> Read<Option<Self>> {
        let Some(addon) = view.get::<ManagedClusterAddOn>(key)? else { return Ok(None) };
        let cma = view.get::<ClusterManagementAddOn>(&Key::cluster(A::NAME))?;
        if cma.is_none() && !addon.is_terminating() {
            return Ok(None);
        }
        let Some(cluster) = view.get::<ManagedCluster>(&Key::cluster(&key.namespace))? else {
            return Ok(None);
        };
        let mut managed =
            view.list::<ManifestWork>(Query::label(ADDON_NAME_LABEL, A::NAME).within(&key.namespace))?;
        let hook = Place::Managed.hook_name(key);
        let is_elsewhere = |work: &ManifestWork| work.label(ADDON_NAMESPACE_LABEL).is_some();
        managed.retain(|work| {
            (works::is_deploy(key, Place::Managed, work) || work.name() == hook) && !is_elsewhere(work)
        });
        Ok(Some(Self {
            host: hosting::host::<A>(&addon, view)?,
            hosted: hosting::works::<A>(&addon, view)?,
            config: config::assigned(cma.as_deref(), &addon, view)?,
            permissions: permissions::Held::read(key, view)?,
            options: A::options(),
            addon_type: PhantomData,
            addon,
            cluster,
            managed,
        }))
    }

    fn plan(&self, now: Timestamp) -> Plan {
        let mut plan = Plan::nothing();
        if !self.cluster.spec.hub_accepts_client {
            plan.step(self.permissions.revoke());
            return plan;
        }
        let mut new = ManagedClusterAddOn::clone(&self.addon);
        let made = match &self.config {
            Assigned::Waits => Ok(None),
            Assigned::Content(config) => self.make(&mut new, config).map(Some),
        };
        if let Ok(Some(made)) = &made {
            if let Some(write) = self.hold(made) {
                plan.step([write]);
                return plan;
            }
            let rules = self.options.hub_permissions.as_deref().unwrap_or_default();
            plan.step(self.permissions.give(&self.addon, rules));
            self.deploy(&mut plan, made);
        }
        let empty = |parts: Option<Vec<Part>>| {
            let parts = parts.unwrap_or_default().into_iter();
            parts.filter(|part| part.works.is_empty()).map(|part| part.place).collect()
        };
        self.report(&mut new, made.map(empty), now);
        plan.status = StatusWrite::between(self.addon.as_ref(), &new);
        plan
    }

    /// Returns the works of the add-on. Fills in the part of its status that the agent of the cluster waits
    /// for.
    ///
    /// # Errors
    /// Says why there are none, in OCM's words.
    pub(super) fn make(
        &self,
        new: &mut ManagedClusterAddOn,
        config: &AddOnDeploymentConfigSpec,
    ) -> Result<Vec<Part>, String> {
        let manifest_error = |why| format!("failed to get manifest from agent interface: {why}");
        let config = config::with_values(config.clone(), &self.addon).map_err(manifest_error)?;
        self.register(new, Vec::new(), &config);
        let installation = Installation { addon: new, cluster: &self.cluster, config: config.clone() };
        let manifests = A::manifests(&installation).map_err(manifest_error)?;
        if let Some(index) = manifests.iter().position(is_incomplete) {
            return Err(manifest_error(format!("object {index} has no apiVersion, kind or name")));
        }
        self.register(new, manifests.clone(), &config);
        let configs = config_refs::assigned(&self.addon).unwrap_or_default();
        let failed = |why: String| format!("failed to build manifestwork: {why}");
        let is_hosted = self.host != Host::None;
        let Divided { managed, hosting } = divide(manifests, is_hosted).map_err(failed)?;
        let own = Target::managed(&self.addon, &configs);
        let host = self.host.name().map(|cluster| Target { place: Place::Hosting, cluster, ..own });
        let manifest_configs = self.options.manifest_configs.clone();
        let author = ManifestWorkSpec { manifest_configs, ..ManifestWorkSpec::default() };
        let parts = host.map(|host| (host, hosting)).into_iter().chain([(own, managed)]);
        let part = |(target, manifests): (Target<'_>, Vec<Object>)| {
            let (place, hook) = (target.place, hook::build(&target, &manifests, &author));
            let works = works::build(&target, manifests, &self.works_at(place), &author);
            Ok(Part { place, works: works.map_err(|why| failed(why.to_string()))?, hook })
        };
        parts.map(part).collect()
    }

    /// Returns the works that deploy a part of the add-on. Those on a cluster that hosted it before do not
    /// count.
    pub(super) fn works_at(&self, place: Place) -> Vec<&ManifestWork> {
        let key = Key::of(&*self.addon);
        self.all_at(place).filter(|work| works::is_deploy(&key, place, work)).collect()
    }

    /// Returns the work with the jobs that run before a part of the add-on is deleted.
    pub(super) fn hook_at(&self, place: Place) -> Option<&ManifestWork> {
        let name = place.hook_name(&Key::of(&*self.addon));
        self.all_at(place).find(|work| work.name() == name)
    }

    fn all_at(&self, place: Place) -> impl Iterator<Item = &ManifestWork> {
        let (works, cluster) = match place {
            Place::Managed => (&self.managed, Some(self.addon.namespace())),
            Place::Hosting => (&self.hosted, hosting::named::<A>(&self.addon)),
        };
        works.iter().map(Arc::as_ref).filter(move |work| Some(work.namespace()) == cluster)
    }

    /// Says how the agent registers, in which namespace, and how its health is found.
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
            Health::Lease => HealthCheckMode::Lease,
            Health::Workloads | Health::Probe(_) => HealthCheckMode::Customized,
        };
    }

    /// Returns the write of the finalizers that the jobs before the deletion need, and the works on another
    /// cluster. It changes the version of the add-on, so it comes alone.
    fn hold(&self, parts: &[Part]) -> Option<Action> {
        if let Host::Invalid(_) = self.host {
            return None;
        }
        let has_jobs = |place| parts.iter().any(|part| part.place == place && part.hook.is_some());
        let deploys = |part: &Part| part.hook.is_some() || !part.works.is_empty();
        let is_deployed = parts.iter().any(|part| part.place == Place::Hosting && deploys(part));
        let needs = [
            (ADDON_PRE_DELETE, has_jobs(Place::Managed)),
            (HOSTING_PRE_DELETE_FINALIZER, has_jobs(Place::Hosting)),
            (HOSTING_CLEANUP_FINALIZER, is_deployed || !self.hosted.is_empty()),
        ];
        let of = |is_needed: bool| -> Vec<&str> {
            needs.iter().filter(|(_, needed)| *needed == is_needed).map(|(finalizer, _)| *finalizer).collect()
        };
        let add = Action::add_finalizers(&*self.addon, &of(true));
        add.or_else(|| Action::remove_finalizers(&*self.addon, &of(false)))
    }

    /// Writes the works that differ, then deletes those that are not wanted any more. They stay as they are
    /// while the hub cannot deploy to the cluster that hosts the add-on.
    fn deploy(&self, plan: &mut Plan, parts: &[Part]) {
        if let Host::Invalid(_) = self.host {
            return;
        }
        for part in parts {
            let existing = self.works_at(part.place);
            let live =
                |wanted: &ManifestWork| existing.iter().find(|work| work.name() == wanted.name()).copied();
            for works in works::to_write(&part.works, live) {
                plan.step(works.into_iter().map(|work| Action::apply_unchanged(work, live(work))));
            }
        }
        let wanted: BTreeSet<Key> = parts.iter().flat_map(|part| part.works.iter().map(Key::of)).collect();
        let hook = Place::Managed.hook_name(&Key::of(&*self.addon));
        let is_surplus = |work: &&Arc<ManifestWork>| {
            !work.is_terminating() && work.name() != hook && !wanted.contains(&Key::of(&***work))
        };
        let works = self.managed.iter().chain(&self.hosted);
        plan.step(works.filter(is_surplus).map(|work| Action::delete(work.as_ref())));
    }
}

/// The works of a part of an add-on.
pub(super) struct Part {
    pub(super) place: Place,
    pub(super) works: Vec<ManifestWork>,
    /// The one with the jobs that run before the deletion.
    pub(super) hook: Option<ManifestWork>,
}

fn is_incomplete(manifest: &Object) -> bool {
    manifest.api_version().is_empty() || manifest.kind().is_empty() || manifest.name().is_empty()
}

/// Returns the identities of the agent, as a template has them.
fn registrations(options: &Options, cluster: &str) -> Vec<RegistrationSpec> {
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

#[cfg(test)]
#[path = "tests/deploy.rs"]
mod tests;
