//! Installs the agent that a Klusterlet describes, and removes it with the Klusterlet.
//!
//! An agent that another operator installed is taken over: its pods end before ours start, and its identity and
//! its AppliedManifestWorks are kept. When a Klusterlet is deleted, the objects of works stay on the cluster with
//! their AppliedManifestWorks, as in OCM, because deleting an AppliedManifestWork deletes its objects.

use super::OperatorImage;
use super::live::{LiveObjects, delete, drain, reference, replacement_wait};
use crate::agent_identity::claim_name;
use api::condition::ConditionStatus::{False, True};
use api::condition::{Observation, set_condition};
use api::names::{
    APPLIED_WORK_FINALIZER, BOOTSTRAP_SECRET, HUB_KUBECONFIG_SECRET, KLUSTERLET_FINALIZER,
    KLUSTERLET_HOSTED_FINALIZER, OCM_NAMESPACE,
};
use api::operator::v1::{Klusterlet, RelatedResource};
use api::work::v1::AppliedManifestWork;
use engine::installation::agent_image;
use engine::klusterlet::{
    self, AccessObjects, InstalledObjects, KlusterletRefusal, KlusterletSettings, MANAGED_SECRET, MANAGER,
    PULL_SECRET, PullSecretChange, Secrets,
};
use jiff::Timestamp;
use object::{Key, Metadata as _, Object, ObjectRef};
use reconcile::{Action, Controller, Executed, Plan, Query, Read, StatusWrite, View, Watches};

pub(crate) struct KlusterletController;

impl Controller for KlusterletController {
    const NAME: &'static str = MANAGER;
    type Primary = Klusterlet;

    fn watches<W: Watches>(watches: &mut W) {
        watches.read::<AppliedManifestWork>();
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let Some(klusterlet) = view.get::<Klusterlet>(key)? else { return Ok(Plan::nothing()) };
        if klusterlet.is_terminating() {
            return remove(&klusterlet, view, now);
        }
        let mut plan = match KlusterletSettings::read(&with_image(&klusterlet, view)) {
            Ok(settings) => Agent::read(settings, view)?.install(&klusterlet),
            Err(_) => Plan::nothing(),
        };
        plan.status = status(&klusterlet, view, None, now)?;
        Ok(plan)
    }

    fn conclude(key: &Key, view: &impl View, done: &Executed, now: Timestamp) -> Read<Option<StatusWrite>> {
        if done.is_success() {
            return Ok(done.plan.status.clone());
        }
        let Some(klusterlet) = view.get::<Klusterlet>(key)? else { return Ok(None) };
        let messages: Vec<_> = done.failures().map(|(_, failure)| failure.message.as_str()).collect();
        status(&klusterlet, view, Some(messages.join("; ")), now)
    }
}

/// Returns a Klusterlet with the image next to the operator's if it names none.
fn with_image(klusterlet: &Klusterlet, view: &impl View) -> Klusterlet {
    let mut klusterlet = klusterlet.clone();
    if let Some(OperatorImage(image)) = view.settings().as_deref() {
        let spec = &mut klusterlet.spec;
        let images = [
            &mut spec.image_pull_spec,
            &mut spec.registration_image_pull_spec,
            &mut spec.work_image_pull_spec,
        ];
        for named in images.into_iter().filter(|named| named.is_empty()) {
            *named = agent_image(image);
        }
    }
    klusterlet
}

/// An agent: the objects that its Klusterlet wants, and the live ones.
struct Agent {
    settings: KlusterletSettings,
    access: AccessObjects,
    live: LiveObjects,
}

impl Agent {
    fn read(settings: KlusterletSettings, view: &impl View) -> Read<Self> {
        let access = klusterlet::access(&settings);
        let wanted = access.namespaces.iter().chain(&access.objects).map(Object::reference);
        let identity = Key::namespaced(&settings.namespace, HUB_KUBECONFIG_SECRET);
        let secrets = bootstrap_secrets(&settings)
            .into_iter()
            .chain([HUB_KUBECONFIG_SECRET.to_owned()])
            .chain(settings.is_hosted.then(|| MANAGED_SECRET.to_owned()));
        let secrets = secrets.map(|name| secret(&settings, name));
        let pull = access.namespaces.iter().map(Object::name).chain([OCM_NAMESPACE]).map(pull_secret);
        let targets = wanted
            .chain(deployment_names(&settings))
            .chain(secrets)
            .chain(pull)
            .chain(klusterlet::left_by_ocm(&settings))
            .chain([claim(&identity)]);
        let live = LiveObjects::read(view, targets.collect::<Vec<_>>())?;
        Ok(Self { settings, access, live })
    }

    fn secrets(&self) -> Secrets<'_> {
        let read = |name: String| {
            let found = self.live.get(&secret(&self.settings, name.clone()));
            (name, found)
        };
        Secrets {
            bootstrap: bootstrap_secrets(&self.settings).into_iter().map(read).collect(),
            hub: self.live.get(&secret(&self.settings, HUB_KUBECONFIG_SECRET.to_owned())),
            managed: self.live.get(&secret(&self.settings, MANAGED_SECRET.to_owned())),
        }
    }

    fn wanted(&self) -> Vec<Object> {
        klusterlet::deployments(&self.settings, self.secrets().has_identity())
    }

    /// Returns the Deployments of another mode, and those that another client created or changed.
    fn stale(&self, wanted: &[Object]) -> Vec<&Object> {
        let is_wanted = |target: &ObjectRef| wanted.iter().any(|object| object.reference() == *target);
        let live = deployment_names(&self.settings).filter_map(|target| {
            let found = self.live.get(&target)?;
            (!is_wanted(&target) || klusterlet::is_shaped_by_others(found)).then_some(found)
        });
        live.collect()
    }

    fn install(&self, klusterlet: &Klusterlet) -> Plan {
        let mut plan = Plan::nothing();
        let hosted = self.settings.is_hosted.then_some(KLUSTERLET_HOSTED_FINALIZER);
        let finalizers: Vec<_> = hosted.into_iter().chain([KLUSTERLET_FINALIZER]).collect();
        plan.step(Action::add_finalizers(klusterlet, &finalizers));
        let missing = self.access.namespaces.iter().filter(|one| self.live.get(&one.reference()).is_none());
        plan.step(missing.cloned().map(Action::create));
        plan.step(self.access.namespaces.iter().filter_map(|one| self.copy_pull_secret(one.name())));
        // An API server rejects a binding to a role that does not exist.
        let is_binding = |object: &&Object| matches!(object.kind(), "ClusterRoleBinding" | "RoleBinding");
        let (bindings, roles): (Vec<_>, Vec<_>) = self.access.objects.iter().partition(is_binding);
        for objects in [roles, bindings] {
            plan.step(objects.into_iter().filter_map(|wanted| self.apply(wanted)));
        }
        let wanted = self.wanted();
        let stale = self.stale(&wanted);
        if stale.is_empty() {
            plan.step(wanted.iter().filter_map(|wanted| self.apply(wanted)));
        } else {
            plan.step(stale.into_iter().filter_map(drain));
        }
        plan
    }

    fn copy_pull_secret(&self, namespace: &str) -> Option<Action> {
        let original = self.live.get(&pull_secret(OCM_NAMESPACE));
        let copy = self.live.get(&pull_secret(namespace));
        match klusterlet::pull_secret_change(original, copy, namespace)? {
            PullSecretChange::Apply(wanted) => Some(Action::apply(wanted)),
            PullSecretChange::Delete => copy.map(delete),
        }
    }

    fn apply(&self, wanted: &Object) -> Option<Action> {
        let live = self.live.get(&wanted.reference());
        let is_there = live.is_some_and(|live| klusterlet::is_applied(live, wanted, MANAGER));
        (!is_there).then(|| Action::apply(wanted.clone()))
    }
}

fn bootstrap_secrets(settings: &KlusterletSettings) -> Vec<String> {
    match settings.bootstrap_secrets.as_slice() {
        [] => vec![BOOTSTRAP_SECRET.to_owned()],
        several => several.to_vec(),
    }
}

fn secret(settings: &KlusterletSettings, name: String) -> ObjectRef {
    reference("v1", "Secret", Key::namespaced(&settings.namespace, name))
}

fn pull_secret(namespace: &str) -> ObjectRef {
    reference("v1", "Secret", Key::namespaced(namespace, PULL_SECRET))
}

fn claim(identity: &Key) -> ObjectRef {
    reference(
        "cluster.open-cluster-management.io/v1alpha1",
        "ClusterClaim",
        Key::cluster(claim_name(identity)),
    )
}

fn deployment_names(settings: &KlusterletSettings) -> impl Iterator<Item = ObjectRef> + use<> {
    let namespace = settings.namespace.clone();
    let names = settings.deployment_names().into_iter();
    names.map(move |name| reference("apps/v1", "Deployment", Key::namespaced(&namespace, name)))
}

/// Removes an agent: first its pods, then its objects, then its permissions.
fn remove(klusterlet: &Klusterlet, view: &impl View, now: Timestamp) -> Read<Plan> {
    let mut plan = Plan::nothing();
    if !klusterlet.has_finalizer(KLUSTERLET_FINALIZER) {
        return Ok(plan);
    }
    let named = with_image(klusterlet, view);
    let settings = KlusterletSettings::read(&named).unwrap_or_else(|_| KlusterletSettings::named(&named));
    let agent = Agent::read(settings, view)?;
    let live = |target: &ObjectRef| agent.live.get(target);
    let since = klusterlet.metadata.deletion_timestamp.as_ref().map_or(now, |since| since.0);
    let cleanup =
        klusterlet::cleanup(&agent.settings, &agent.secrets(), since).filter(|(_, until)| now < *until);
    let is_cleanup = |one: &&Object| cleanup.as_ref().is_some_and(|(wanted, _)| one.name() == wanted.name());
    let mut deployments =
        deployment_names(&agent.settings).filter_map(|target| agent.live.get(&target)).collect::<Vec<_>>();
    deployments.retain(|one| !is_cleanup(one));
    if !deployments.is_empty() {
        plan.step(deployments.into_iter().filter_map(drain));
        return Ok(plan);
    }
    if let Some((wanted, until)) = cleanup {
        plan.step(agent.apply(&wanted));
        plan.wake(until);
        return Ok(plan);
    }
    let name = agent.secrets().agent_name();
    let applied = view.list_readable::<AppliedManifestWork>(Query::ALL)?;
    let is_own = |id: &str| id == klusterlet.uid() || name.as_deref() == Some(id);
    let own = applied.iter().filter(|applied| is_own(&applied.spec.agent_id));
    plan.step(
        own.filter_map(|applied| Action::remove_finalizers(applied.as_ref(), &[APPLIED_WORK_FINALIZER])),
    );
    let identity = secret(&agent.settings, HUB_KUBECONFIG_SECRET.to_owned());
    let claim = live(&claim(&identity.key));
    let objects = agent.access.objects.iter().filter_map(|object| live(&object.reference()));
    let copies = agent
        .access
        .namespaces
        .iter()
        .filter_map(|one| live(&pull_secret(one.name())))
        .filter(|secret| klusterlet::is_copy(secret));
    let left = klusterlet::left_by_ocm(&agent.settings);
    let left = left.iter().filter_map(live);
    plan.step(objects.chain(left).chain(live(&identity)).chain(claim).chain(copies).map(delete));
    let namespaces = agent.access.namespaces.iter().filter(|one| one.name() == agent.settings.namespace);
    let namespaces = namespaces.filter_map(|one| live(&one.reference()));
    plan.step(namespaces.filter(|one| agent.settings.made(one) && !one.is_terminating()).map(delete));
    let finalizers = [KLUSTERLET_HOSTED_FINALIZER, KLUSTERLET_FINALIZER];
    plan.step(Action::remove_finalizers(klusterlet, &finalizers));
    Ok(plan)
}

/// Returns the write of the status, with the failure of the last writes.
fn status(
    klusterlet: &Klusterlet,
    view: &impl View,
    failure: Option<String>,
    now: Timestamp,
) -> Read<Option<StatusWrite>> {
    let mut new = klusterlet.clone();
    let generation = klusterlet.metadata.generation.unwrap_or_default();
    let status = new.status.get_or_insert_default();
    status.observed_generation = Some(generation);
    let observed = match KlusterletSettings::read(&with_image(klusterlet, view)) {
        Err(refusal) => refused(&refusal),
        Ok(settings) => {
            let agent = Agent::read(settings, view)?;
            let wanted = agent.wanted();
            let live = |target: Option<&Object>| agent.live.get(&target?.reference());
            let installed = InstalledObjects {
                registration: live(wanted.first()),
                work: live(wanted.last()),
                secrets: agent.secrets(),
            };
            let deployments: Vec<_> = wanted.iter().filter_map(|one| live(Some(one))).collect();
            status.generations = klusterlet::generations(&deployments);
            status.related_resources = related(&agent, &wanted);
            let stale = agent.stale(&wanted);
            let waits = replacement_wait(&stale);
            let mut observed =
                vec![klusterlet::prepared(&agent.settings, &installed.secrets), applied(failure.or(waits))];
            observed.extend(klusterlet::conditions(&agent.settings, &installed));
            observed
        }
    };
    for observation in observed {
        set_condition(&mut status.conditions, observation.at(generation), now);
    }
    Ok(StatusWrite::between(klusterlet, &new))
}

fn refused(refusal: &KlusterletRefusal) -> Vec<Observation> {
    let prepared =
        Observation::new("ReadyToApply", False, "KlusterletPrepareFailed").message(refusal.to_string());
    vec![prepared, applied(Some(refusal.to_string()))]
}

fn applied(failure: Option<String>) -> Observation {
    match failure {
        None => {
            Observation::new("Applied", True, "KlusterletApplied").message("Klusterlet Component Applied")
        }
        Some(failure) => Observation::new("Applied", False, "KlusterletApplyFailed").message(failure),
    }
}

/// Lists the objects of the installation.
fn related(agent: &Agent, deployments: &[Object]) -> Vec<RelatedResource> {
    let objects = agent.access.namespaces.iter().chain(&agent.access.objects).chain(deployments);
    objects.map(klusterlet::related).collect()
}
