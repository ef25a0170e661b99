//! Deploys an add-on to its cluster and says how it fares: works from the snapshot the rollout assigned, permissions, health.
//!
//! The status is written when there is an outcome. What is on its way is told again only after a while ([`PATIENCE`]), so that a
//! rollout costs each cluster one write when it starts and one when it ends.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::rbac::v1::RoleBinding;

use crate::addon_reads;
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::condition::ConditionStatus::{self, False, True, Unknown};
use api::condition::{Observation, find_condition, set_condition};
use api::gitops::v1alpha1::Success;
use api::names::{
    ADDON_NAME_LABEL, ADDON_NAMESPACE_LABEL, IMAGE_REGISTRIES_ANNOTATION, addon_conditions,
    cluster_conditions,
};
use api::work::v1::ManifestWork;
use engine::addon::config::Config;
use engine::addon::health::{self, WorksStatus};
use engine::addon::registration::{self, Sources};
use engine::addon::{config_refs, progress, snapshot, template, works};
use engine::applier;
use object::{Key, Object};
use reconcile::{Action, Controller, Executed, Plan, Query, Read, StatusWrite, View, Watches};

/// How long an outcome may be open before the status says why.
pub(super) const PATIENCE: SignedDuration = SignedDuration::from_secs(10);
/// How long the agent may fail to apply an object before that is an outcome: a CRD may be on its way.
pub(super) const TOLERANCE: SignedDuration = SignedDuration::from_secs(30);
/// When to look again for a snapshot that was written but not seen yet.
const SOON: SignedDuration = SignedDuration::from_secs(1);

/// See the [module](self).
pub(crate) struct AddonDeployController;

impl Controller for AddonDeployController {
    const NAME: &'static str = "addon-deploy";
    type Primary = ManagedClusterAddOn;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManifestWork>(|change, _| {
            let addon = |work: &ManifestWork| {
                work.metadata.labels.as_ref().and_then(|l| l.get(ADDON_NAME_LABEL)).cloned()
            };
            let key =
                |work: &ManifestWork| Some(Key::namespaced(work.metadata.namespace.clone()?, addon(work)?));
            change.sides().take(1).filter_map(key).collect()
        });
        watches.on::<ManagedCluster>(|change, view| {
            let facts =
                |cluster: &ManagedCluster| (registries(cluster).map(str::to_owned), available(cluster));
            if matches!((&change.old, &change.new), (Some(old), Some(new)) if facts(old) == facts(new)) {
                return Vec::new();
            }
            let names = change.sides().take(1).filter_map(|cluster| cluster.metadata.name.clone());
            let addons = names.flat_map(|name| {
                view.list::<ManagedClusterAddOn>(Query::namespace(&name)).unwrap_or_default()
            });
            addons.map(|addon| Key::of(addon.as_ref())).collect()
        });
        watches.on::<ClusterManagementAddOn>(|change, view| {
            let facts =
                |cma: &ClusterManagementAddOn| (config_refs::has_template(cma), config_refs::is_managed(cma));
            if matches!((&change.old, &change.new), (Some(old), Some(new)) if facts(old) == facts(new)) {
                return Vec::new();
            }
            let names = change.sides().take(1).filter_map(|cma| cma.metadata.name.clone());
            let addons = names.flat_map(|name| addon_reads::of_clusters(&name, view).unwrap_or_default());
            addons.map(|addon| Key::of(addon.as_ref())).collect()
        });
        watches.read::<ControllerRevision>();
        watches.read::<RoleBinding>();
        watches.read::<api::gitops::v1alpha1::RolloutPolicy>();
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let Some(addon) = view.get::<ManagedClusterAddOn>(key)? else { return Ok(Plan::nothing()) };
        if addon.metadata.deletion_timestamp.is_some() {
            // The works go with it, by their owner reference.
            return Ok(Plan::nothing());
        }
        let deployment = Deployment::read(addon, view)?;
        Ok(deployment.map_or_else(Plan::nothing, |deployment| deployment.plan(now)))
    }

    /// An error of the API is for the next attempt; the status tells of outcomes.
    fn conclude(_: &Key, _: &impl View, done: &Executed, _: Timestamp) -> Option<StatusWrite> {
        if done.is_success() { done.plan.status.clone() } else { None }
    }
}

fn registries(cluster: &ManagedCluster) -> Option<&str> {
    cluster.metadata.annotations.as_ref()?.get(IMAGE_REGISTRIES_ANNOTATION).map(String::as_str)
}

fn available(cluster: &ManagedCluster) -> Option<(ConditionStatus, String, String)> {
    let condition = find_condition(&cluster.status.as_ref()?.conditions, cluster_conditions::AVAILABLE)?;
    Some((condition.status.clone(), condition.reason.clone(), condition.message.clone()))
}

/// One add-on on one cluster, and everything that is decided about it from.
struct Deployment {
    addon: Arc<ManagedClusterAddOn>,
    cluster: Arc<ManagedCluster>,
    works: Vec<Arc<ManifestWork>>,
    /// What the rollout assigned.
    configs: Vec<Config>,
    has_template: bool,
    /// The contents of what was assigned; `Ok(None)` while there is nothing to deploy or it has not been seen.
    sources: Result<Option<Sources>, String>,
    bindings: Vec<(RoleBinding, Option<Arc<RoleBinding>>)>,
    needs_health: bool,
}

impl Deployment {
    fn read(addon: Arc<ManagedClusterAddOn>, view: &impl View) -> Read<Option<Self>> {
        let name = addon.metadata.name.clone().unwrap_or_default();
        let namespace = addon.metadata.namespace.clone().unwrap_or_default();
        let Some(cma) = view.get::<ClusterManagementAddOn>(&Key::cluster(&name))? else { return Ok(None) };
        let Some(cluster) = view.get::<ManagedCluster>(&Key::cluster(&namespace))? else { return Ok(None) };
        if !config_refs::is_managed(&cma) {
            return Ok(None);
        }
        let mut works =
            view.list::<ManifestWork>(Query::label(ADDON_NAME_LABEL, &name).within(&namespace))?;
        let is_hosted = |work: &ManifestWork| {
            work.metadata.labels.as_ref().is_some_and(|l| l.contains_key(ADDON_NAMESPACE_LABEL))
        };
        works.retain(|work| works::is_deploy(&name, work) && !is_hosted(work));
        let configs = addon
            .status
            .as_ref()
            .and_then(|status| config_refs::desired(&status.config_references))
            .unwrap_or_default();
        let has_template = config_refs::has_template(&cma);
        let policy = addon_reads::policy_object(&name, view)?;
        let mut deployment = Self {
            needs_health: has_template && policy.is_none_or(|policy| policy.spec.success != Success::Applied),
            sources: Ok(None),
            bindings: Vec::new(),
            addon,
            cluster,
            works,
            configs,
            has_template,
        };
        if has_template {
            deployment.sources = deployment.read_sources(&name, view)?;
            deployment.bindings = deployment.read_bindings(view)?;
        }
        Ok(Some(deployment))
    }

    fn read_sources(&self, addon: &str, view: &impl View) -> Read<Result<Option<Sources>, String>> {
        let find = |is: fn(&Config) -> bool| self.configs.iter().find(|config| is(config));
        let Some(template) = find(config_refs::is_template) else { return Ok(Ok(None)) };
        let get = |config: &Config| view.get::<ControllerRevision>(&snapshot::key(addon, config));
        let Some(template) = get(template)? else { return Ok(Ok(None)) };
        let config = match find(config_refs::is_deployment_config).map(get).transpose()? {
            Some(None) => return Ok(Ok(None)),
            Some(Some(config)) => Some(config),
            None => None,
        };
        Ok(Sources::read(&template, config.as_deref()).map(Some))
    }

    fn read_bindings(&mut self, view: &impl View) -> Read<Vec<(RoleBinding, Option<Arc<RoleBinding>>)>> {
        let Ok(Some(sources)) = &self.sources else { return Ok(Vec::new()) };
        match registration::role_bindings(&self.addon, &sources.template) {
            Ok(bindings) => bindings
                .into_iter()
                .map(|wanted| Ok((wanted.clone(), view.get::<RoleBinding>(&Key::of(&wanted))?)))
                .collect(),
            Err(error) => {
                self.sources = Err(error);
                Ok(Vec::new())
            }
        }
    }

    fn works(&self) -> Vec<&ManifestWork> {
        self.works.iter().map(Arc::as_ref).collect()
    }

    fn name(&self) -> &str {
        self.addon.metadata.name.as_deref().unwrap_or_default()
    }

    fn plan(&self, now: Timestamp) -> Plan {
        let mut plan = Plan::nothing();
        let mut new = ManagedClusterAddOn::clone(&self.addon);
        let rendered = match &self.sources {
            Ok(Some(sources)) => {
                registration::fill(&mut new, sources);
                self.render(sources).map(|wanted| self.deploy(&mut plan, &wanted))
            }
            Ok(None) => {
                if self.has_template && !self.configs.is_empty() {
                    plan.wake(now.saturating_add(SOON).unwrap_or(now));
                }
                Ok(())
            }
            Err(error) => Err(error.clone()),
        };
        self.report(&mut plan, &mut new, rendered.err(), now);
        plan.status = StatusWrite::between(self.addon.as_ref(), &new);
        plan
    }

    fn render(&self, sources: &Sources) -> Result<Vec<ManifestWork>, String> {
        let cluster = self.addon.metadata.namespace.as_deref().unwrap_or_default();
        let registries = registries(&self.cluster);
        let input = template::Input {
            addon: self.name(),
            cluster,
            template: &sources.template,
            config: sources.config.as_ref(),
            registries,
        };
        let manifests = template::render(&input)
            .map_err(|e| format!("failed to get manifest from agent interface: {e}"))?;
        let user = &sources.template.agent_spec.manifest_configs;
        let built = works::build(&self.addon, &self.configs, manifests, &self.works(), user);
        built.map_err(|e| format!("failed to build manifestwork: {e}"))
    }

    /// Permissions and works, each written only where it differs.
    fn deploy(&self, plan: &mut Plan, wanted: &[ManifestWork]) {
        let bound = |wanted: &RoleBinding, held: Option<&RoleBinding>| {
            let (live, want) = (held.map(Object::from_typed).unwrap_or_default(), Object::from_typed(wanted));
            applier::covers(&live.into_value(), &want.into_value())
        };
        let missing = self.bindings.iter().filter(|(wanted, held)| !bound(wanted, held.as_deref()));
        plan.step(missing.map(|(wanted, _)| Action::apply_typed(wanted)));
        let held =
            |wanted: &ManifestWork| self.works.iter().find(|work| work.metadata.name == wanted.metadata.name);
        let differs =
            |wanted: &&ManifestWork| held(wanted).is_none_or(|work| !works::is_as_wanted(work, wanted));
        plan.step(wanted.iter().filter(differs).map(|work| Action::apply(without_status(work))));
        let surplus = self
            .works
            .iter()
            .filter(|work| !wanted.iter().any(|wanted| wanted.metadata.name == work.metadata.name));
        plan.step(
            surplus
                .filter(|work| work.metadata.deletion_timestamp.is_none())
                .map(|work| Action::delete(work.as_ref())),
        );
    }

    fn report(&self, plan: &mut Plan, new: &mut ManagedClusterAddOn, error: Option<String>, now: Timestamp) {
        let works = self.works();
        let status = new.status.get_or_insert_default();
        let before = status.conditions.clone();
        let progressing =
            find_condition(&before, addon_conditions::PROGRESSING).filter(|condition| condition.is_true());
        let started = progressing.map(|condition| condition.last_transition_time.0);
        let mut outcome = self.outcome(&works, error.clone(), now, plan);
        if status.config_references.iter().all(|r| r.last_applied_config == r.desired_config)
            && !status.config_references.is_empty()
        {
            // What has arrived once stays arrived; health since then is told by Available.
            outcome = None;
        }
        let open = outcome.is_none() && started.is_some();
        if let Some(observation) = outcome {
            if observation.reason == progress::COMPLETED {
                status
                    .config_references
                    .iter_mut()
                    .for_each(|r| r.last_applied_config.clone_from(&r.desired_config));
            }
            set_condition(&mut status.conditions, observation, now);
        }
        // While the outcome is open, nothing is told before its time.
        if let Some(told) =
            started.filter(|_| open).and_then(|at| at.checked_add(PATIENCE).ok()).filter(|told| *told > now)
        {
            plan.wake(told);
            return;
        }
        if self.has_template {
            self.report_deployment(&mut status.conditions, &works, error, now);
        }
        self.report_health(&mut status.conditions, &works, now);
    }

    /// The outcome of what was assigned, once there is one.
    fn outcome(
        &self,
        works: &[&ManifestWork],
        error: Option<String>,
        now: Timestamp,
        plan: &mut Plan,
    ) -> Option<Observation> {
        if let Some(error) = error {
            return Some(
                Observation::new(addon_conditions::PROGRESSING, False, progress::FAILED).message(error),
            );
        }
        if self.configs.is_empty() && self.has_template {
            return None;
        }
        match health::works_status(works, &self.configs, self.needs_health) {
            WorksStatus::Done => Some(
                Observation::new(addon_conditions::PROGRESSING, False, progress::COMPLETED)
                    .message("completed with no errors."),
            ),
            WorksStatus::Refused(message) => {
                let refused = works
                    .iter()
                    .filter_map(|work| find_condition(&work.status.as_ref()?.conditions, "Applied"));
                let since = refused
                    .filter(|condition| condition.is_false())
                    .map(|condition| condition.last_transition_time.0)
                    .min()?;
                let until = since.checked_add(TOLERANCE).ok()?;
                if until > now {
                    plan.wake(until);
                    return None;
                }
                Some(
                    Observation::new(addon_conditions::PROGRESSING, False, progress::FAILED).message(message),
                )
            }
            WorksStatus::NoWorks
            | WorksStatus::OtherConfig
            | WorksStatus::NotReady
            | WorksStatus::NotHealthy(_) => None,
        }
    }

    fn report_deployment(
        &self,
        conditions: &mut Vec<api::Condition>,
        works: &[&ManifestWork],
        error: Option<String>,
        now: Timestamp,
    ) {
        let registered =
            Observation::new(addon_conditions::REGISTRATION_APPLIED, True, "SetPermissionApplied")
                .message("Registration of the addon agent is configured");
        if matches!(self.sources, Ok(Some(_))) {
            set_condition(conditions, registered, now);
        }
        match error {
            Some(error) => {
                let failed =
                    Observation::new(addon_conditions::MANIFEST_APPLIED, False, "ManifestWorkApplyFailed")
                        .message(error);
                set_condition(conditions, failed, now);
            }
            None if !works.is_empty() => {
                if let Some(applied) = health::manifest_applied(works) {
                    set_condition(conditions, applied, now);
                }
            }
            None => {}
        }
        // Why it takes so long is said where OCM says how far it is.
        if let (WorksStatus::NotHealthy(why), true) = (
            health::works_status(works, &self.configs, self.needs_health),
            conditions.iter().any(is_progressing),
        ) {
            let message = format!("progressing... {why}");
            set_condition(
                conditions,
                Observation::new(addon_conditions::PROGRESSING, True, progress::UNDER_WAY).message(message),
                now,
            );
        }
    }

    fn report_health(&self, conditions: &mut Vec<api::Condition>, works: &[&ManifestWork], now: Timestamp) {
        match available(&self.cluster) {
            Some((Unknown, reason, message)) => {
                set_condition(
                    conditions,
                    Observation::new(addon_conditions::AVAILABLE, Unknown, &reason).message(message),
                    now,
                );
            }
            _ if self.has_template
                && find_condition(conditions, addon_conditions::MANIFEST_APPLIED).is_some() =>
            {
                set_condition(conditions, health::availability(self.name(), works), now);
            }
            _ => {}
        }
    }
}

fn is_progressing(condition: &api::Condition) -> bool {
    condition.type_ == addon_conditions::PROGRESSING && condition.is_true()
}

fn without_status(work: &ManifestWork) -> Object {
    let mut object = Object::from_typed(work);
    object.0.remove("status");
    object
}
