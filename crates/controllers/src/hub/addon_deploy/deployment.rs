//! An add-on on one cluster: its input, and the objects that deploy it.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::rbac::v1::RoleBinding;

use super::index::ReadContents;
use crate::rollout_policy::{self, RolloutOwner, of_people};
use crate::sealing::WorkKeys;
use addon_lifecycle::{Permissions, WantedPermissions, deploy, finish, hold, read_live};
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::names::{IMAGE_REGISTRIES_ANNOTATION, SEALED_KEYS_ANNOTATION};
use api::work::v1::ManifestWork;
use engine::addon::config::Config;
use engine::addon::error::AddOnError;
use engine::addon::health;
use engine::addon::hosting::{Host, Place};
use engine::addon::live::{AddOnPart, LiveAddOn};
use engine::addon::registration::{self, Sources};
use engine::addon::works_status::WorksStatus;
use engine::addon::{config_refs, snapshot, template};
use object::{Key, Metadata as _, Object};
use reconcile::{Plan, Read, StatusWrite, View};
use seal::Owner;

/// Delay for a snapshot that exists on the hub but is not in the cache yet.
const SNAPSHOT_RECHECK: SignedDuration = SignedDuration::from_secs(1);

/// Returns the image registries that a cluster sets.
pub(super) fn registries(cluster: &ManagedCluster) -> Option<&str> {
    cluster.annotation(IMAGE_REGISTRIES_ANNOTATION)
}

/// One add-on on one cluster, and the input of its deployment.
pub(super) struct AddOnDeployment {
    pub(super) live: LiveAddOn,
    pub(super) cluster: Arc<ManagedCluster>,
    /// The configurations that the rollout assigned.
    pub(super) configs: Vec<Config>,
    pub(super) has_template: bool,
    /// The contents of the configurations; `Ok(None)` while no configuration is assigned or its snapshot has not
    /// been read.
    pub(super) sources: Result<Option<Arc<Sources>>, AddOnError>,
    wanted_permissions: WantedPermissions,
    permissions: Permissions,
    /// The health that the works report, or the reason that they cannot be written.
    pub(super) works_status: WorksStatus,
}

/// The outcome of the hub's part of the deployment.
pub(super) struct DeployOutcome {
    /// The places that need no works, or the reason that nothing could be rendered.
    pub(super) empty: Result<Vec<Place>, String>,
    /// The time of the hub's first write for the rollout.
    pub(super) deployed: Option<Timestamp>,
    /// True if the add-on should have a work that does not exist yet.
    pub(super) misses_works: bool,
}

impl DeployOutcome {
    /// Returns true if the template deploys nothing, and nothing is left from an earlier deployment.
    pub(super) fn is_empty(&self) -> bool {
        self.empty.as_deref() == Ok(Place::ALL.as_slice())
    }
}

impl AddOnDeployment {
    pub(super) fn read(addon: Arc<ManagedClusterAddOn>, view: &impl View) -> Read<Option<Self>> {
        let (name, namespace) = (addon.name(), addon.namespace());
        let cma = view.get::<ClusterManagementAddOn>(&Key::cluster(name))?;
        let Some(cluster) = view.get::<ManagedCluster>(&Key::cluster(namespace))? else { return Ok(None) };
        // The garbage collector deletes the add-ons on clusters after their ClusterManagementAddOn. Their hooks
        // then run with the configurations from their snapshots.
        let is_ours = cma.as_ref().map_or(addon.is_terminating(), |cma| config_refs::is_managed(cma));
        if !is_ours {
            return Ok(None);
        }
        let key = Key::of(&*addon);
        let status = addon.status.as_ref();
        let configs =
            status.and_then(|status| config_refs::desired(&status.config_references)).unwrap_or_default();
        let has_template = cma.as_ref().map_or_else(
            || configs.iter().any(config_refs::is_template),
            |cma| config_refs::has_template(cma),
        );
        let policies = rollout_policy::policies_for(RolloutOwner::AddOn(name), view)?;
        let policy = rollout_policy::choose(&policies, RolloutOwner::AddOn(name));
        let needs_health = !rollout_policy::applied_suffices(&policies);
        // Without a person's policy, an add-on with its own manager succeeds as in OCM: once it is applied.
        let needs_condition = needs_health && !has_template && of_people(policy.map(Arc::as_ref)).is_some();
        let mut deployment = Self {
            works_status: WorksStatus::NoWorks,
            sources: Ok(None),
            wanted_permissions: WantedPermissions::default(),
            permissions: permissions_of(&key, view)?,
            live: read_live(Arc::clone(&addon), true, view)?,
            cluster,
            configs,
            has_template,
        };
        let works = deployment.live.works();
        deployment.works_status = match &deployment.live.host {
            Host::Invalid(reason) if has_template => WorksStatus::NotReady(reason.clone()),
            Host::None | Host::Valid(_) | Host::Invalid(_) => {
                health::works_status(&works, &deployment.configs, needs_health && has_template)
            }
        };
        if deployment.works_status == WorksStatus::Done && needs_condition {
            let unavailable = health::unavailable(&addon);
            deployment.works_status = unavailable.map_or(WorksStatus::Done, WorksStatus::NotHealthy);
        }
        if has_template {
            deployment.sources = deployment.read_sources(view)?;
            deployment.decide_permissions();
        }
        Ok(Some(deployment))
    }

    fn read_sources(&self, view: &impl View) -> Read<Result<Option<Arc<Sources>>, AddOnError>> {
        let find = |is: fn(&Config) -> bool| self.configs.iter().find(|config| is(config));
        let Some(template) = find(config_refs::is_template) else { return Ok(Ok(None)) };
        let get = |config: &Config| view.get::<ControllerRevision>(&snapshot::key(self.name(), config));
        let Some(template) = get(template)? else { return Ok(Ok(None)) };
        let config = match find(config_refs::is_deployment_config).map(get).transpose()? {
            Some(None) => return Ok(Ok(None)),
            Some(Some(config)) => Some(config),
            None => None,
        };
        let sources = view.index(|contents: &mut ReadContents| contents.of(template, config))?;
        Ok(sources.map(Some))
    }

    fn decide_permissions(&mut self) {
        let Ok(Some(sources)) = &self.sources else { return };
        match registration::role_bindings(&self.live.addon, &sources.template) {
            Ok(bindings) => self.wanted_permissions.bindings = bindings,
            Err(error) => self.sources = Err(error),
        }
    }

    pub(super) fn name(&self) -> &str {
        self.live.addon.name()
    }

    /// Plans the deployment. `deployed` is the time of the hub's first write for the rollout.
    pub(super) fn plan(
        &mut self,
        deployed: Option<Timestamp>,
        view: &impl View,
        now: Timestamp,
    ) -> Read<Plan> {
        let mut plan = Plan::nothing();
        if !self.cluster.spec.hub_accepts_client {
            plan.step(self.permissions.revoke());
            return Ok(plan);
        }
        let mut new = ManagedClusterAddOn::clone(&self.live.addon);
        let mut outcome = DeployOutcome { empty: Ok(Vec::new()), deployed: None, misses_works: false };
        match &self.sources {
            Ok(Some(sources)) => {
                registration::fill(&mut new, sources);
                match self.parts(sources) {
                    Ok(mut parts) => {
                        if let Some(held) = hold(&self.live, &parts) {
                            return Ok(held);
                        }
                        outcome.empty = Ok(self.live.empty(&parts));
                        outcome.misses_works = self.misses_works(&parts);
                        match self.add_keys(&mut parts, view)? {
                            Ok(()) => {
                                plan =
                                    deploy(&self.live, &parts, &self.permissions, &self.wanted_permissions);
                            }
                            Err(reason) => self.works_status = WorksStatus::Unsealed(reason),
                        }
                    }
                    Err(error) => outcome.empty = Err(error),
                }
            }
            Ok(None) => {
                if self.has_template && !self.configs.is_empty() {
                    plan.wake(now.saturating_add(SNAPSHOT_RECHECK).unwrap_or(now));
                }
            }
            Err(error) => outcome.empty = Err(error.to_string()),
        }
        outcome.deployed = self.deployed(deployed, &plan, now);
        self.report(&mut plan, &mut new, outcome, now);
        let (addon, status) = (&self.live.addon, new.status.unwrap_or_default());
        plan.status = StatusWrite::from_status(addon.as_ref(), addon.status.as_ref(), &status);
        Ok(plan)
    }

    /// Returns true if the agent has all permissions that it should have. An add-on without configurations has not
    /// been deployed, and an agent on a cluster that the hub does not accept should have none.
    pub(super) fn is_permitted(&self) -> bool {
        let has = |wanted: &RoleBinding| self.permissions.binding(wanted).is_some();
        let needs_none = self.configs.is_empty() || !self.cluster.spec.hub_accepts_client;
        needs_none
            || (matches!(self.sources, Ok(Some(_))) && self.wanted_permissions.bindings.iter().all(has))
    }

    /// Returns the manifests of the template for this cluster.
    fn render(&self, sources: &Sources) -> Result<Vec<Object>, String> {
        let input = template::TemplateInput {
            addon: self.name(),
            cluster: self.live.addon.namespace(),
            template: &sources.template,
            config: sources.config.as_ref(),
            registries: registries(&self.cluster),
        };
        template::render(&input).map_err(|e| format!("failed to get manifest from agent interface: {e}"))
    }

    /// Returns the works that the add-on should have.
    fn parts(&self, sources: &Sources) -> Result<Vec<AddOnPart>, String> {
        self.live.parts(self.render(sources)?, &self.configs, &sources.template.agent_spec)
    }

    /// Adds the keys for encrypted Secrets to works, or returns the cluster that cannot get them, with the reason. A
    /// work with the same Secrets keeps its keys: after the hub has a new key, old ciphertext has no others.
    fn add_keys(&self, parts: &mut [AddOnPart], view: &impl View) -> Read<Result<(), String>> {
        let Some(template) = self.configs.iter().find(|config| config_refs::is_template(config)) else {
            return Ok(Ok(()));
        };
        let owner = Owner::Template(template.key.name.clone());
        for part in parts {
            let live = self.live.works_at(part.place);
            for work in &mut part.works {
                let cluster = work.namespace().to_owned();
                let keys = match WorkKeys::read(&work.spec.workload.manifests, &cluster, view)? {
                    Ok(keys) => keys,
                    Err(reason) => return Ok(Err(format!("{cluster}: {reason}"))),
                };
                let live = live.iter().find(|live| live.name() == work.name());
                match live.filter(|live| keys.are_in(live) && has_same_secrets(live, work)) {
                    Some(live) => keep_keys(live, work),
                    None => keys.add(&owner, work),
                }
            }
        }
        Ok(Ok(()))
    }

    /// Returns true if any work of these parts does not exist yet.
    fn misses_works(&self, parts: &[AddOnPart]) -> bool {
        let exists = |place, wanted: &ManifestWork| {
            self.live.works_at(place).iter().any(|work| work.name() == wanted.name())
        };
        parts.iter().any(|part| part.works.iter().any(|wanted| !exists(part.place, wanted)))
    }

    /// Runs the jobs of an add-on that is being deleted, with the assigned configurations, and then removes the
    /// finalizers.
    pub(super) fn finish(&self, now: Timestamp) -> Plan {
        let make = || match &self.sources {
            Ok(Some(sources)) => self.parts(sources),
            Ok(None) if self.configs.iter().any(config_refs::is_template) => {
                Err("the snapshot of its template does not exist".to_owned())
            }
            Ok(None) => Ok(Vec::new()),
            Err(error) => Err(error.to_string()),
        };
        finish(&self.live, self.cluster.spec.hub_accepts_client, make, now)
    }
}

/// Returns true if two works have the same encrypted Secrets.
fn has_same_secrets(a: &ManifestWork, b: &ManifestWork) -> bool {
    let [a, b] = [a, b].map(|work| work.spec.workload.manifests.iter().filter(|one| seal::is_sealed(one)));
    a.eq(b)
}

fn keep_keys(live: &ManifestWork, work: &mut ManifestWork) {
    if let Some(keys) = live.annotation(SEALED_KEYS_ANNOTATION) {
        let annotations = work.metadata.annotations.get_or_insert_default();
        annotations.insert(SEALED_KEYS_ANNOTATION.into(), keys.to_owned());
    }
}

/// Returns the permissions that the agent of an add-on with a template has on one cluster.
pub(super) fn permissions_of(addon: &Key, view: &impl View) -> Read<Permissions> {
    Permissions::read(addon, registration::addon_of_binding, view)
}
