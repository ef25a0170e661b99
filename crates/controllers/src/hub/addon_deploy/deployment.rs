//! An add-on on one cluster: its input, and the objects that deploy it.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::rbac::v1::RoleBinding;

use super::status::DeployOutcome;
use crate::rollout_policy::{self, RolloutOwner};
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::gitops::v1alpha1::Success;
use api::names::{ADDON_NAME_LABEL, ADDON_NAMESPACE_LABEL, CLUSTER_NAME_LABEL, IMAGE_REGISTRIES_ANNOTATION};
use api::work::v1::ManifestWork;
use engine::addon::config::Config;
use engine::addon::health::{self, WorksStatus};
use engine::addon::registration::{self, Sources};
use engine::addon::{config_refs, hook, snapshot, template, works};
use object::{Key, Metadata as _, Object};
use reconcile::{Action, Plan, Query, Read, StatusWrite, View};

/// The wait for a snapshot that exists on the hub but is not in the cache yet.
const SNAPSHOT_RECHECK: SignedDuration = SignedDuration::from_secs(1);

/// Returns the image registries that a cluster asks for.
pub(super) fn registries(cluster: &ManagedCluster) -> Option<&str> {
    cluster.annotation(IMAGE_REGISTRIES_ANNOTATION)
}

/// One add-on on one cluster, and the input of its deployment.
pub(super) struct Deployment {
    pub(super) addon: Arc<ManagedClusterAddOn>,
    pub(super) cluster: Arc<ManagedCluster>,
    pub(super) works: Vec<Arc<ManifestWork>>,
    /// The work with the jobs that run before the add-on is deleted.
    pub(super) hook: Option<Arc<ManifestWork>>,
    /// The configurations that the rollout assigned.
    pub(super) configs: Vec<Config>,
    pub(super) has_template: bool,
    /// The contents of the configurations; `Ok(None)` while no configuration is assigned or its snapshot has
    /// not been read.
    pub(super) sources: Result<Option<Sources>, String>,
    /// The permissions that the agent should have.
    permissions: Vec<RoleBinding>,
    /// The permissions that it has.
    bindings: Vec<Arc<RoleBinding>>,
    /// The health that its works report.
    pub(super) works_status: WorksStatus,
}

impl Deployment {
    pub(super) fn read(addon: Arc<ManagedClusterAddOn>, view: &impl View) -> Read<Option<Self>> {
        let (name, namespace) = (addon.name(), addon.namespace());
        let cma = view.get::<ClusterManagementAddOn>(&Key::cluster(name))?;
        let Some(cluster) = view.get::<ManagedCluster>(&Key::cluster(namespace))? else { return Ok(None) };
        // The garbage collector deletes the add-ons after their ClusterManagementAddOn. Their hooks then run
        // with the configurations of their snapshots.
        let is_ours = cma.as_ref().map_or(addon.is_terminating(), |cma| config_refs::is_managed(cma));
        if !is_ours {
            return Ok(None);
        }
        let mut works = view.list::<ManifestWork>(Query::label(ADDON_NAME_LABEL, name).within(namespace))?;
        let is_hosted = |work: &ManifestWork| work.label(ADDON_NAMESPACE_LABEL).is_some();
        let hook = works.iter().find(|work| work.name() == hook::name(name)).cloned();
        works.retain(|work| works::is_deploy(name, work) && !is_hosted(work));
        let status = addon.status.as_ref();
        let configs =
            status.and_then(|status| config_refs::desired(&status.config_references)).unwrap_or_default();
        let has_template = cma.as_ref().map_or_else(
            || configs.iter().any(config_refs::is_template),
            |cma| config_refs::has_template(cma),
        );
        let policy = rollout_policy::object_for(RolloutOwner::AddOn(name), view)?;
        let needs_health =
            has_template && policy.is_none_or(|policy| policy.spec.success != Success::Applied);
        let reported: Vec<&ManifestWork> = works.iter().map(Arc::as_ref).collect();
        let mut deployment = Self {
            works_status: health::works_status(&reported, &configs, needs_health),
            sources: Ok(None),
            permissions: Vec::new(),
            bindings: bindings_of(&Key::of(&*addon), view)?,
            addon,
            cluster,
            works,
            hook,
            configs,
            has_template,
        };
        if has_template {
            deployment.sources = deployment.read_sources(view)?;
            deployment.decide_permissions();
        }
        Ok(Some(deployment))
    }

    fn read_sources(&self, view: &impl View) -> Read<Result<Option<Sources>, String>> {
        let find = |is: fn(&Config) -> bool| self.configs.iter().find(|config| is(config));
        let Some(template) = find(config_refs::is_template) else { return Ok(Ok(None)) };
        let get = |config: &Config| view.get::<ControllerRevision>(&snapshot::key(self.name(), config));
        let Some(template) = get(template)? else { return Ok(Ok(None)) };
        let config = match find(config_refs::is_deployment_config).map(get).transpose()? {
            Some(None) => return Ok(Ok(None)),
            Some(Some(config)) => Some(config),
            None => None,
        };
        Ok(Sources::read(&template, config.as_deref()).map(Some))
    }

    fn decide_permissions(&mut self) {
        let Ok(Some(sources)) = &self.sources else { return };
        match registration::role_bindings(&self.addon, &sources.template) {
            Ok(permissions) => self.permissions = permissions,
            Err(error) => self.sources = Err(error),
        }
    }

    /// Returns the works that the cluster has.
    pub(super) fn works(&self) -> Vec<&ManifestWork> {
        self.works.iter().map(Arc::as_ref).collect()
    }

    pub(super) fn name(&self) -> &str {
        self.addon.name()
    }

    /// Plans the deployment. `refused_since` is when the hub first saw that the agent could not apply an
    /// object.
    pub(super) fn plan(&self, refused_since: Option<Timestamp>, now: Timestamp) -> Plan {
        let mut plan = Plan::nothing();
        if !self.cluster.spec.hub_accepts_client {
            plan.step(remove(&self.bindings));
            return plan;
        }
        let mut new = ManagedClusterAddOn::clone(&self.addon);
        let mut is_empty = false;
        let rendered = match &self.sources {
            Ok(Some(sources)) => {
                registration::fill(&mut new, sources);
                match self.render(sources).and_then(|manifests| self.build(sources, manifests)) {
                    Ok((wanted, hook)) => {
                        if let Some(held) = self.hold(hook.is_some()) {
                            return held;
                        }
                        is_empty = wanted.is_empty() && self.works.is_empty();
                        self.deploy(&mut plan, &wanted);
                        Ok(())
                    }
                    Err(error) => Err(error),
                }
            }
            Ok(None) => {
                if self.has_template && !self.configs.is_empty() {
                    plan.wake(now.saturating_add(SNAPSHOT_RECHECK).unwrap_or(now));
                }
                Ok(())
            }
            Err(error) => Err(error.clone()),
        };
        let verdict = DeployOutcome { error: rendered.err(), refused_since, is_empty };
        self.report(&mut plan, &mut new, verdict, now);
        plan.status = StatusWrite::between(self.addon.as_ref(), &new);
        plan
    }

    /// Returns the manifests of the template for this cluster.
    pub(super) fn render(&self, sources: &Sources) -> Result<Vec<Object>, String> {
        let input = template::Input {
            addon: self.name(),
            cluster: self.addon.namespace(),
            template: &sources.template,
            config: sources.config.as_ref(),
            registries: registries(&self.cluster),
        };
        template::render(&input).map_err(|e| format!("failed to get manifest from agent interface: {e}"))
    }

    /// Returns the works that deploy the manifests, and the one that runs before the deletion.
    fn build(
        &self,
        sources: &Sources,
        manifests: Vec<Object>,
    ) -> Result<(Vec<ManifestWork>, Option<ManifestWork>), String> {
        let hook = hook::build(&self.addon, &manifests);
        let user = &sources.template.agent_spec.manifest_configs;
        let built = works::build(&self.addon, &self.configs, manifests, &self.works(), user);
        Ok((built.map_err(|e| format!("failed to build manifestwork: {e}"))?, hook))
    }

    /// Writes the permissions, then the works, each only if it differs; then deletes the works that are not
    /// wanted any more.
    fn deploy(&self, plan: &mut Plan, wanted: &[ManifestWork]) {
        let held =
            |wanted: &RoleBinding| self.bindings.iter().find(|held| Key::of(&***held) == Key::of(wanted));
        let permissions = self.permissions.iter();
        plan.step(permissions.filter_map(|wanted| Action::ensure(wanted, held(wanted).map(Arc::as_ref))));
        let live = |wanted: &ManifestWork| self.works.iter().find(|work| work.name() == wanted.name());
        let differs =
            |wanted: &&ManifestWork| live(wanted).is_none_or(|work| !works::is_as_wanted(work, wanted));
        let apply = |work| Action::apply_unchanged(work, live(work).map(Arc::as_ref));
        plan.step(wanted.iter().filter(differs).map(apply));
        let is_surplus = |work: &&Arc<ManifestWork>| {
            !work.is_terminating() && !wanted.iter().any(|wanted| wanted.name() == work.name())
        };
        plan.step(self.works.iter().filter(is_surplus).map(|work| Action::delete(work.as_ref())));
        // The agent of the earlier version needed its permissions until now.
        let is_wanted =
            |held: &RoleBinding| self.permissions.iter().any(|wanted| Key::of(wanted) == Key::of(held));
        plan.step(remove(self.bindings.iter().filter(|held| !is_wanted(held))));
    }
}

/// Returns the permissions on the hub that the agent of an add-on has on one cluster, in every namespace.
pub(super) fn bindings_of(addon: &Key, view: &impl View) -> Read<Vec<Arc<RoleBinding>>> {
    let mut bindings = view.list::<RoleBinding>(Query::label(CLUSTER_NAME_LABEL, &addon.namespace))?;
    bindings.retain(|binding| registration::addon_of_binding(binding).as_ref() == Some(addon));
    Ok(bindings)
}

/// Revokes permissions.
pub(super) fn remove<'a>(bindings: impl IntoIterator<Item = &'a Arc<RoleBinding>>) -> Vec<Action> {
    let living = bindings.into_iter().filter(|binding| !binding.is_terminating());
    living.map(|binding| Action::delete(binding.as_ref())).collect()
}
