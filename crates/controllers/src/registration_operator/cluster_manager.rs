//! Installs the hub components that a ClusterManager describes, and removes them with the ClusterManager.
//!
//! It creates the same objects as `wheelwright install`. OCM's hub components in the same namespace are replaced:
//! their pods end before ours start. The fleet survives the switch in both directions, and existing definitions
//! are left unchanged.

use super::OperatorImage;
use super::live::{LiveObjects, delete, drain, merge, reference, replacement_wait};
use api::condition::ConditionStatus::{False, True};
use api::condition::{Observation, set_condition};
use api::crds;
use api::names::cluster_profile::CLUSTER_PROFILES_ROLE;
use api::names::{AUTO_APPROVE_BINDING, CLUSTER_MANAGER_FINALIZER, OPERATOR, WEBHOOK};
use api::operator::v1::ClusterManager;
use engine::cluster_manager::{self, ClusterManagerSettings, MANAGER, NAMESPACE};
use engine::installation::{MANAGED_BY, keep_conversion};
use jiff::Timestamp;
use object::{Key, Metadata as _, Object, ObjectRef};
use reconcile::{Action, Controller, Executed, Plan, Read, StatusWrite, View, Watches};

pub(crate) struct ClusterManagerController;

impl Controller for ClusterManagerController {
    const NAME: &'static str = MANAGER;
    type Primary = ClusterManager;

    fn watches<W: Watches>(_: &mut W) {}

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let Some(manager) = view.get::<ClusterManager>(key)? else { return Ok(Plan::nothing()) };
        if manager.is_terminating() {
            return remove(&manager, view);
        }
        let mut plan = match Hub::wanted_by(&manager, view) {
            Ok((settings, wanted)) => Hub::read(settings, wanted, view)?.install(&manager),
            Err(_) => Plan::nothing(),
        };
        plan.status = status(&manager, view, None, now)?;
        Ok(plan)
    }

    fn conclude(key: &Key, view: &impl View, done: &Executed, now: Timestamp) -> Read<Option<StatusWrite>> {
        if done.is_success() {
            return Ok(done.plan.status.clone());
        }
        let Some(manager) = view.get::<ClusterManager>(key)? else { return Ok(None) };
        let messages: Vec<_> = done.failures().map(|(_, failure)| failure.message.as_str()).collect();
        status(&manager, view, Some(messages.join("; ")), now)
    }
}

/// The hub components: the objects that the ClusterManager wants, and the live ones.
struct Hub {
    settings: ClusterManagerSettings,
    wanted: Vec<Object>,
    live: LiveObjects,
}

impl Hub {
    fn wanted_by(
        manager: &ClusterManager,
        view: &impl View,
    ) -> Result<(ClusterManagerSettings, Vec<Object>), String> {
        let mut settings = ClusterManagerSettings::read(manager).map_err(|refusal| refusal.to_string())?;
        if let Some(OperatorImage(image)) = view.settings().as_deref() {
            settings.options.image.get_or_insert_with(|| image.clone());
        }
        let wanted = cluster_manager::objects(&settings).map_err(|error| error.to_string())?;
        Ok((settings, wanted))
    }

    fn read(settings: ClusterManagerSettings, wanted: Vec<Object>, view: &impl View) -> Read<Self> {
        let (deployments, webhooks) = cluster_manager::replaced(&settings.name);
        let targets = wanted
            .iter()
            .map(Object::reference)
            .chain(deployments)
            .chain(webhooks)
            .chain(optional())
            .chain(created());
        let live = LiveObjects::read(view, targets.collect::<Vec<_>>())?;
        Ok(Self { settings, wanted, live })
    }

    /// Returns the remaining Deployments of OCM's hub components.
    fn theirs(&self) -> Vec<&Object> {
        let (deployments, _) = cluster_manager::replaced(&self.settings.name);
        deployments.iter().filter_map(|target| self.live.get(target)).collect()
    }

    fn install(&self, manager: &ClusterManager) -> Plan {
        let mut plan = Plan::nothing();
        plan.step(Action::add_finalizers(manager, &[CLUSTER_MANAGER_FINALIZER]));
        let is = |kind: &'static str| move |object: &&Object| object.kind() == kind;
        let of = |kind| self.wanted.iter().filter(is(kind));
        let missing = of("Namespace").filter(|one| self.live.get(&one.reference()).is_none());
        plan.step(missing.cloned().map(Action::create));
        plan.step(of("CustomResourceDefinition").filter_map(|wanted| self.apply(wanted)));
        let early = ["Namespace", "CustomResourceDefinition", "ClusterRole", "Role", "ServiceAccount"];
        let roles = ["ClusterRole", "Role", "ServiceAccount"];
        plan.step(roles.into_iter().flat_map(of).filter_map(|wanted| self.apply(wanted)));
        let later = |object: &&Object| !early.contains(&object.kind()) && object.kind() != "Deployment";
        plan.step(self.wanted.iter().filter(later).filter_map(|wanted| self.apply(wanted)));
        let is_stale = |one: &&Object| {
            is_ours(one) && !self.wanted.iter().any(|wanted| wanted.reference() == one.reference())
        };
        let optional = optional();
        plan.step(optional.iter().filter_map(|one| self.live.get(one)).filter(is_stale).map(delete));
        let theirs = self.theirs();
        if theirs.is_empty() {
            plan.step(of("Deployment").filter_map(|wanted| self.apply(wanted)));
        } else {
            // Once their pods have ended, nothing serves these webhooks, and every write would fail.
            let (_, webhooks) = cluster_manager::replaced(&self.settings.name);
            let deleted = webhooks.iter().filter_map(|target| self.live.get(target)).map(delete);
            let definitions =
                of("CustomResourceDefinition").filter_map(|one| self.live.get(&one.reference()));
            let ours = Key::namespaced(NAMESPACE, WEBHOOK);
            let converted = definitions
                .filter_map(|one| Some(merge(one, cluster_manager::with_our_webhook(&ours, one)?)));
            plan.step(deleted.chain(converted));
            plan.step(theirs.into_iter().filter_map(drain));
        }
        plan
    }

    fn apply(&self, wanted: &Object) -> Option<Action> {
        let live = self.live.get(&wanted.reference());
        // Another client may have installed a newer version of a definition or of a role for joining clusters.
        let is_shared = wanted.kind() == "CustomResourceDefinition"
            || wanted.name().starts_with("open-cluster-management:");
        let mut wanted = wanted.clone();
        if let Some(live) = live {
            keep_conversion(&mut wanted, live);
        }
        let stays = live.is_some_and(|live| {
            (is_shared && !is_ours(live)) || engine::klusterlet::is_applied(live, &wanted, MANAGER)
        });
        (!stays).then(|| Action::apply(wanted))
    }
}

/// Returns true if a registration operator created an object.
fn is_ours(object: &Object) -> bool {
    object.label(MANAGED_BY) == Some(cluster_manager::OWNER)
}

/// Lists the objects that only some specs want.
fn optional() -> [ObjectRef; 3] {
    let named = |kind: &str, name: &str| reference("rbac.authorization.k8s.io/v1", kind, Key::cluster(name));
    [
        named("ClusterRoleBinding", AUTO_APPROVE_BINDING),
        named("ClusterRoleBinding", CLUSTER_PROFILES_ROLE),
        named("ClusterRole", CLUSTER_PROFILES_ROLE),
    ]
}

/// Lists the objects that the hub components create themselves.
fn created() -> [ObjectRef; 2] {
    let key = |name: &str| Key::namespaced(NAMESPACE, name);
    [reference("v1", "Secret", key(WEBHOOK)), reference("coordination.k8s.io/v1", "Lease", key(OPERATOR))]
}

/// Removes the hub components. The fleet stays: definitions, clusters, placements, add-ons, works and the
/// namespace.
fn remove(manager: &ClusterManager, view: &impl View) -> Read<Plan> {
    let mut plan = Plan::nothing();
    if !manager.has_finalizer(CLUSTER_MANAGER_FINALIZER) {
        return Ok(plan);
    }
    let settings = ClusterManagerSettings::named(manager);
    let wanted = cluster_manager::objects(&settings).unwrap_or_default();
    let hub = Hub::read(settings, wanted, view)?;
    let live = |target: &ObjectRef| hub.live.get(target).filter(|live| !live.is_terminating());
    let all: Vec<_> = hub.wanted.iter().filter_map(|object| live(&object.reference())).collect();
    let deployments: Vec<_> = all.iter().filter(|one| one.kind() == "Deployment" && is_ours(one)).collect();
    if !deployments.is_empty() {
        plan.step(deployments.into_iter().filter_map(|one| drain(one)));
        return Ok(plan);
    }
    let definitions = all.iter().filter(|one| crds::CONVERTIBLE.contains(&one.name()));
    let unconverted = definitions.filter_map(|one| Some(merge(one, cluster_manager::without_webhook(one)?)));
    plan.step(unconverted);
    let stays = ["CustomResourceDefinition", "Namespace"];
    let gone = all.into_iter().filter(|one| is_ours(one) && !stays.contains(&one.kind()));
    let (optional, created) = (optional(), created());
    let given = optional.iter().filter_map(live).filter(|one| is_ours(one));
    plan.step(gone.chain(given).chain(created.iter().filter_map(live)).map(delete));
    plan.step(Action::remove_finalizers(manager, &[CLUSTER_MANAGER_FINALIZER]));
    Ok(plan)
}

/// Returns the write of the status, with the failure of the last writes.
fn status(
    manager: &ClusterManager,
    view: &impl View,
    failure: Option<String>,
    now: Timestamp,
) -> Read<Option<StatusWrite>> {
    let mut new = manager.clone();
    let generation = manager.metadata.generation.unwrap_or_default();
    let status = new.status.get_or_insert_default();
    status.observed_generation = Some(generation);
    let observed = match Hub::wanted_by(manager, view) {
        Err(error) => vec![applied(Some(error))],
        Ok((settings, wanted)) => {
            let hub = Hub::read(settings, wanted, view)?;
            let wanted = hub.wanted.iter().filter(|one| one.kind() == "Deployment");
            let deployment = wanted.filter_map(|one| hub.live.get(&one.reference())).next();
            status.generations = engine::klusterlet::generations(&deployment.into_iter().collect::<Vec<_>>());
            status.related_resources = hub.wanted.iter().map(engine::klusterlet::related).collect();
            let theirs = hub.theirs();
            let waits = replacement_wait(&theirs);
            let mut observed = vec![applied(failure.or(waits))];
            observed.extend(cluster_manager::conditions(&hub.settings, deployment));
            observed
        }
    };
    for observation in observed {
        set_condition(&mut status.conditions, observation.at(generation), now);
    }
    Ok(StatusWrite::between(manager, &new))
}

fn applied(failure: Option<String>) -> Observation {
    match failure {
        None => Observation::new("Applied", True, "ClusterManagerApplied")
            .message("Components of cluster manager are applied"),
        Some(failure) => Observation::new("Applied", False, "RuntimeResourceApplyFailed").message(failure),
    }
}
