//! Decides which configuration each cluster's add-on runs: resolves, keeps snapshots, rolls out.
//!
//! The order of writes is the safety of it: the content is kept by hash before any cluster is assigned that hash, and what is
//! quarantined is remembered before any cluster returns from it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::addons;
use crate::api::addon::v1alpha1::{
    ClusterManagementAddOn, ClusterManagementAddOnStatus, InstallProgression, InstallStrategyType, ManagedClusterAddOn,
};
use crate::api::cluster::v1::ManagedCluster;
use crate::api::cluster::v1beta1::Placement;
use crate::api::gitops::v1alpha1::{RolloutPolicy, RolloutStatus};
use crate::api::names::cluster_conditions::AVAILABLE;
use crate::api::names::{ADDON_GROUP, SYSTEM_NAMESPACE, addon_conditions};
use crate::engine::addon::config::{Config, ConfigKind, address, resolve};
use crate::engine::addon::selection::Selection;
use crate::engine::addon::{progress, registration, snapshot, spec_hash, wire};
use crate::engine::rollout::input::Hash;
use crate::engine::rollout::strategy::Size;
use crate::engine::rollout::wave::Wave;
use crate::engine::rollout::{self, Input, Strategy};
use crate::object::condition::{Observation, find_condition, set_condition};
use crate::object::{Gvk, Key, Object};
use crate::reconcile::{Action, Change, Controller, Executed, Plan, Read, StatusWrite, View, Watches};

/// See the [module](self).
pub(super) struct AddonConfig;

impl Controller for AddonConfig {
    const NAME: &'static str = "addon-config";
    type Primary = ClusterManagementAddOn;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManagedClusterAddOn>(|change, _| {
            if concerns(change) { change.sides().take(1).map(addons::key_of_addon).collect() } else { Vec::new() }
        });
        watches.on::<ManagedCluster>(|change, view| {
            let reachable = |cluster: &ManagedCluster| is_unreachable(cluster);
            let same = matches!((&change.old, &change.new), (Some(old), Some(new)) if reachable(old) == reachable(new));
            if same { Vec::new() } else { addons::every::<ClusterManagementAddOn>(view) }
        });
        watches.on::<RolloutPolicy>(|change, view| {
            let same = matches!((&change.old, &change.new), (Some(old), Some(new)) if old.spec == new.spec);
            if same { Vec::new() } else { addons::every::<ClusterManagementAddOn>(view) }
        });
        watches.on_observed(|change, view| {
            let ours = change.sides().any(|object| config_gvks().contains(&object.gvk()));
            if ours { addons::every::<ClusterManagementAddOn>(view) } else { Vec::new() }
        });
        addons::wake_on_placements(watches);
        watches.read::<ControllerRevision>();
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Plan {
        let Ok(Some(cma)) = view.get::<ClusterManagementAddOn>(key) else { return Plan::nothing() };
        if cma.metadata.deletion_timestamp.is_some() {
            return Plan::nothing();
        }
        let observe = if wire::has_template(&cma) { config_gvks() } else { Vec::new() };
        let plan = Rollout::read(cma, view).and_then(|rollout| rollout.plan(view, now, &mut |_, _| {})).unwrap_or_default();
        Plan { observe, ..plan }
    }

    /// The status tells of the rollout as a whole, so one cluster that could not be written does not hold it back.
    fn conclude(_: &Key, _: &impl View, done: &Executed, _: Timestamp) -> Option<StatusWrite> {
        if done.outcomes.len() == done.plan.steps.len() { done.plan.status.clone() } else { None }
    }
}

/// What the rollout of an add-on comes to now, by placement; `None` where there is no such add-on.
///
/// # Errors
/// Where something it is decided from could not be read.
pub fn explain(name: &str, view: &impl View, now: Timestamp) -> Read<Option<Vec<(Key, Wave)>>> {
    let Some(cma) = view.get::<ClusterManagementAddOn>(&Key::cluster(name))? else { return Ok(None) };
    let mut waves = Vec::new();
    let mut tell = |of: &InstallProgression, wave: &Wave| waves.push((Key::namespaced(&of.namespace, &of.name), wave.clone()));
    Rollout::read(cma, view)?.plan(view, now, &mut tell)?;
    Ok(Some(waves))
}

/// The kinds of configurations whose content is read.
pub(crate) fn config_gvks() -> Vec<Gvk> {
    let kind = |resource: &str| ConfigKind { group: ADDON_GROUP.into(), resource: resource.into() };
    [wire::TEMPLATES, wire::DEPLOYMENT_CONFIGS].into_iter().filter_map(|resource| wire::config_gvk(&kind(resource))).collect()
}

/// Whether a change of a cluster's add-on can change what the rollout decides.
fn concerns(change: &Change<ManagedClusterAddOn>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    let facts = |addon: &ManagedClusterAddOn| {
        let status = addon.status.clone().unwrap_or_default();
        let progressing = find_condition(&status.conditions, addon_conditions::PROGRESSING).cloned();
        let configured = find_condition(&status.conditions, addon_conditions::CONFIGURED).cloned();
        (addon.spec.clone(), addon.metadata.deletion_timestamp.clone(), status.config_references, progressing, configured)
    };
    facts(old) != facts(new)
}

fn is_unreachable(cluster: &ManagedCluster) -> bool {
    let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|condition| condition.type_ == AVAILABLE && condition.status == "Unknown")
}

/// Since when the cluster answers, if it does.
fn answers_since(cluster: &ManagedCluster) -> Option<Timestamp> {
    let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    let available = conditions.into_iter().find(|condition| condition.type_ == AVAILABLE && condition.status == "True");
    available.map(|condition| condition.last_transition_time.0)
}

/// Everything one rollout of an add-on is decided from.
struct Rollout {
    cma: Arc<ClusterManagementAddOn>,
    name: String,
    /// Whether the hub knows the content of the configurations.
    has_template: bool,
    defaults: Vec<Config>,
    placements: Vec<Node>,
    /// Whether every placement can be relied upon.
    settled: bool,
    addons: BTreeMap<String, Arc<ManagedClusterAddOn>>,
    unreachable: BTreeSet<String>,
    /// Content of configurations by [`Config`], where the hub keeps snapshots of it.
    contents: BTreeMap<Config, Object>,
}

/// One placement of the install strategy.
struct Node {
    configs: Vec<Config>,
    selection: Selection,
    group_size: Option<Size>,
    /// Clusters of later placements.
    taken: BTreeSet<String>,
}

impl Rollout {
    fn read(cma: Arc<ClusterManagementAddOn>, view: &impl View) -> Read<Self> {
        let name = progress::name(&cma).to_owned();
        let by_placement = cma.spec.install_strategy.r#type == InstallStrategyType::Placements;
        let strategies = if by_placement { cma.spec.install_strategy.placements.as_slice() } else { &[] };
        let mut rollout = Self {
            name: name.clone(),
            has_template: wire::has_template(&cma),
            defaults: Vec::new(),
            placements: Vec::new(),
            settled: true,
            addons: BTreeMap::new(),
            unreachable: BTreeSet::new(),
            contents: BTreeMap::new(),
            cma: Arc::clone(&cma),
        };
        rollout.defaults = rollout.with_content(wire::defaults(&cma), view)?;
        for (strategy, selection) in strategies.iter().zip(addons::placements_of(strategies, view)?) {
            let held = cma.status.iter().flat_map(|status| &status.install_progressions);
            let held = held.filter(|p| (&p.namespace, &p.name) == (&strategy.namespace, &strategy.name)).flat_map(|p| &p.config_references);
            let held: Vec<Config> = held.filter_map(|r| Some(wire::hashed(&r.group, &r.resource, r.desired_config.as_ref()?))).collect();
            let placement = view.get::<Placement>(&Key::namespaced(&strategy.namespace, &strategy.name))?;
            let group_size = placement.and_then(|placement| {
                let groups = placement.spec.decision_strategy.as_ref()?.group_strategy.as_ref()?.clusters_per_decision_group.clone();
                Size::read("clustersPerDecisionGroup", &groups).ok()
            });
            rollout.settled &= selection.settled;
            let configs = rollout.with_content(wire::named(&strategy.configs, &held), view)?;
            let own: BTreeSet<String> = selection.clusters().map(str::to_owned).collect();
            rollout.placements.iter_mut().for_each(|earlier| earlier.taken.extend(own.iter().cloned()));
            rollout.placements.push(Node { configs, selection, group_size, taken: BTreeSet::new() });
        }
        for addon in addons::of_clusters(&name, view)? {
            rollout.addons.insert(addon.metadata.namespace.clone().unwrap_or_default(), addon);
        }
        let selected = rollout.placements.iter().flat_map(|node| node.selection.clusters()).map(str::to_owned);
        for cluster in selected.chain(rollout.addons.keys().cloned()).collect::<BTreeSet<_>>() {
            if view.get::<ManagedCluster>(&Key::cluster(&cluster))?.is_some_and(|managed| is_unreachable(&managed)) {
                rollout.unreachable.insert(cluster);
            }
        }
        Ok(rollout)
    }

    /// The same configurations with the hash of what they contain now, where the hub knows it; a missing one has none.
    fn with_content(&mut self, configs: Vec<Config>, view: &impl View) -> Read<Vec<Config>> {
        let mut result = Vec::new();
        for mut config in configs {
            if let Some(object) = wire::config_object(&config).filter(|_| self.has_template) {
                let object = view.observed(&object)?;
                config.hash = object.as_ref().map(|object| spec_hash::spec_hash(object)).unwrap_or_default();
                if let Some(object) = object {
                    self.contents.insert(config.clone(), Object::clone(&object));
                }
            }
            result.push(config);
        }
        Ok(result)
    }

    /// What a cluster should run: the defaults, its placement's, its own.
    fn wants(&mut self, node: &[Config], addon: Option<&ManagedClusterAddOn>, view: &impl View) -> Read<Vec<Config>> {
        let own = addon.map(|addon| {
            let references = addon.status.iter().flat_map(|status| &status.config_references);
            let held: Vec<Config> =
                references.filter_map(|r| Some(wire::hashed(&r.group, &r.resource, r.desired_config.as_ref()?))).collect();
            wire::named(&addon.spec.configs, &held)
        });
        let own = self.with_content(own.unwrap_or_default(), view)?;
        Ok(resolve([self.defaults.as_slice(), node, &own]))
    }

    /// A configuration whose content the hub should know and does not.
    fn missing<'a>(&self, configs: &'a [Config]) -> Option<&'a Config> {
        configs.iter().find(|config| self.has_template && config.hash.is_empty() && wire::config_gvk(&config.kind).is_some())
    }

    /// What to write; `tell` hears what each placement's rollout came to.
    fn plan(mut self, view: &impl View, now: Timestamp, tell: &mut dyn FnMut(&InstallProgression, &Wave)) -> Read<Plan> {
        if !wire::is_managed(&self.cma) {
            return Ok(Plan::nothing());
        }
        let mut plan = Plan::nothing();
        let mut status = ClusterManagementAddOnStatus {
            default_config_references: wire::default_references(&self.defaults),
            ..self.cma.status.clone().unwrap_or_default()
        };
        let before = std::mem::take(&mut status.install_progressions);
        let (policy, granted) = addons::policy(&self.name, view)?;
        let memory = addons::policy_object(&self.name, view)?;
        let mut assigned: BTreeMap<String, Vec<Config>> = BTreeMap::new();
        let mut ready = BTreeSet::new();
        let mut rollouts = Vec::new();
        let placements = std::mem::take(&mut self.placements);
        for (node, strategy) in placements.iter().zip(self.cma.clone().spec.install_strategy.placements.iter()) {
            let desired = resolve([self.defaults.as_slice(), &node.configs]);
            let same = |p: &&InstallProgression| (&p.namespace, &p.name) == (&strategy.namespace, &strategy.name);
            let mut progression = before.iter().find(same).cloned().unwrap_or_default();
            (progression.namespace, progression.name) = (strategy.namespace.clone(), strategy.name.clone());
            if let Some(config) = self.missing(&desired) {
                set_condition(&mut progression.conditions, missing_condition(config), now);
                status.install_progressions.push(progression);
                continue;
            }
            let mut input =
                Input::new(address(&desired), Strategy::read(&strategy.rollout_strategy).map(|s| s.or_concurrency(node.group_size)));
            (input.policy, input.granted) = (policy.clone(), granted.clone());
            let remembered = memory.as_ref().and_then(|policy| remembered(policy, &self.name, &progression));
            input.quarantined = remembered.map(|status| Hash(status.quarantined.clone())).filter(|hash| !hash.0.is_empty());
            let wave = self.advance(&mut input, node, &progression, view, (&mut assigned, &mut ready), now)?;
            tell(&progression, &wave);
            progression.config_references = wire::install_references(&desired, &progression.config_references, wave.is_complete());
            let own = node.selection.clusters().filter(|cluster| !node.taken.contains(*cluster)).count();
            let condition = progress::placement_condition(node.selection.clusters().count(), own, &wave);
            set_condition(&mut progression.conditions, condition, now);
            wave.recheck.into_iter().for_each(|at| plan.wake(at));
            rollouts.push(rollout_status(&self.name, &progression, &input, &wave));
            status.install_progressions.push(progression);
        }
        self.placements = placements;
        self.rest(&mut assigned, view)?;
        self.write(&mut plan, &assigned, &ready, memory.as_deref().map(|policy| (policy, rollouts)), view, now)?;
        let new = ClusterManagementAddOn { status: Some(status), ..ClusterManagementAddOn::clone(&self.cma) };
        plan.status = StatusWrite::between(self.cma.as_ref(), &new);
        Ok(plan)
    }

    /// Asks the rollout engine about one placement.
    fn advance(
        &mut self,
        input: &mut Input,
        node: &Node,
        progression: &InstallProgression,
        view: &impl View,
        (assigned, ready): (&mut BTreeMap<String, Vec<Config>>, &mut BTreeSet<String>),
        now: Timestamp,
    ) -> Read<Wave> {
        let good: Option<Vec<Config>> = progression
            .config_references
            .iter()
            .map(|r| Some(wire::hashed(&r.group, &r.resource, r.last_known_good_config.as_ref()?)))
            .collect();
        let good = good.filter(|configs| !configs.is_empty());
        let mut choices: BTreeMap<String, Vec<(Hash, Vec<Config>)>> = BTreeMap::new();
        let mut absent = node.taken.clone();
        let clusters: Vec<String> = node.selection.clusters().filter(|cluster| !node.taken.contains(*cluster)).map(str::to_owned).collect();
        for name in clusters {
            let addon = self.addons.get(&name).cloned();
            let managed = view.get::<ManagedCluster>(&Key::cluster(&name))?;
            let going = addon.as_ref().is_some_and(|addon| addon.metadata.deletion_timestamp.is_some());
            let Some(managed) = managed.filter(|managed| managed.metadata.deletion_timestamp.is_none() && !going) else {
                // Neither will ever arrive, and a rollout must not wait for it (hazard R8).
                absent.insert(name);
                continue;
            };
            let wants = self.wants(&node.configs, addon.as_deref(), view)?;
            if self.missing(&wants).is_some() {
                absent.insert(name);
                continue;
            }
            let mut cluster = match &addon {
                Some(addon) => progress::cluster(addon, &wants),
                None => rollout::input::Cluster { name: name.clone(), wants: Hash(address(&wants)), ..Default::default() },
            };
            cluster.unreachable = self.unreachable.contains(&name);
            cluster.answers_since = answers_since(&managed);
            let applied =
                addon.as_ref().and_then(|addon| wire::applied(&addon.status.as_ref()?.config_references)).filter(|c| !c.is_empty());
            // A cluster that already succeeded with what may turn out bad elsewhere returns to what was good everywhere.
            let last_good = applied.filter(|configs| address(configs) != cluster.wants.0).or_else(|| good.clone());
            cluster.last_good = last_good.as_ref().map(|configs| Hash(address(configs)));
            let mut known = vec![(cluster.wants.clone(), wants)];
            known.extend(last_good.map(|configs| (Hash(address(&configs)), configs)));
            choices.insert(name, known);
            input.clusters.push(cluster);
        }
        input.groups = node.selection.without(&absent);
        let wave = rollout::advance(input, now);
        for cluster in &input.clusters {
            let Some(verdict) = wave.clusters.get(&cluster.name) else { continue };
            let known = choices.get(&cluster.name).into_iter().flatten();
            let choice = known.into_iter().find(|(hash, _)| verdict.assigned.as_ref() == Some(hash));
            if verdict.assigned == cluster.runs {
                if cluster.runs.as_ref() == Some(&cluster.wants) {
                    ready.insert(cluster.name.clone());
                }
            } else if let Some((_, configs)) = choice {
                assigned.insert(cluster.name.clone(), configs.clone());
            }
        }
        Ok(wave)
    }

    /// Add-ons that no placement selects get what they should run at once, but not while placements are unsettled: then they may well be
    /// a placement's.
    fn rest(&mut self, assigned: &mut BTreeMap<String, Vec<Config>>, view: &impl View) -> Read<()> {
        let selected: BTreeSet<String> = self.placements.iter().flat_map(|node| node.selection.clusters()).map(str::to_owned).collect();
        let rest: Vec<_> = self.addons.iter().filter(|(cluster, _)| self.settled && !selected.contains(*cluster)).collect();
        let rest: Vec<_> = rest.into_iter().map(|(cluster, addon)| (cluster.clone(), Arc::clone(addon))).collect();
        for (cluster, addon) in rest.into_iter().filter(|(_, addon)| addon.metadata.deletion_timestamp.is_none()) {
            let wants = self.wants(&[], Some(&addon), view)?;
            let runs = progress::cluster(&addon, &wants).runs;
            if self.missing(&wants).is_none() && runs != Some(Hash(address(&wants))) {
                assigned.insert(cluster, wants);
            }
        }
        Ok(())
    }

    /// Snapshots first, then what must be remembered, then the clusters.
    fn write(
        &self,
        plan: &mut Plan,
        assigned: &BTreeMap<String, Vec<Config>>,
        ready: &BTreeSet<String>,
        memory: Option<(&RolloutPolicy, Vec<RolloutStatus>)>,
        view: &impl View,
        now: Timestamp,
    ) -> Read<()> {
        let mut snapshots = Vec::new();
        for (config, content) in self.contents.iter().filter(|_| !assigned.is_empty()) {
            if view.get::<ControllerRevision>(&snapshot::key(&self.name, config))?.is_none() {
                let revision = snapshot::snapshot(&self.name, config, spec_hash::content(content));
                snapshots.push(Action::create(Object::from_typed(&revision)));
            }
        }
        if !snapshots.is_empty() {
            let metadata = ObjectMeta { name: Some(SYSTEM_NAMESPACE.into()), ..ObjectMeta::default() };
            plan.step([Action::create(Object::from_typed(&Namespace { metadata, ..Namespace::default() }))]);
        }
        plan.step(snapshots);
        plan.step(memory.and_then(|(policy, rollouts)| remember(policy, &self.name, rollouts)));
        let mut writes = Vec::new();
        for (cluster, addon) in &self.addons {
            let mut new = ManagedClusterAddOn::clone(addon);
            if let Some(configs) = assigned.get(cluster) {
                let generation = |config: &Config| self.contents.get(config).map(Object::generation).unwrap_or_default();
                progress::assign(&mut new, configs, generation, now);
                if let Some(template) = self.template(configs, view)? {
                    registration::fill(&mut new, &template);
                }
            } else if ready.contains(cluster) {
                progress::configured(&mut new.status.get_or_insert_default().conditions, true, now);
            } else if !self.has_template && self.is_waiting(cluster) {
                // Add-ons with their own manager may render by name; for them this is the gate.
                progress::configured(&mut new.status.get_or_insert_default().conditions, false, now);
            }
            writes.extend(StatusWrite::between(addon.as_ref(), &new).map(|write| write.action()));
        }
        plan.step(writes);
        Ok(())
    }

    fn is_waiting(&self, cluster: &str) -> bool {
        self.placements.iter().any(|node| node.selection.clusters().any(|name| name == cluster) && !node.taken.contains(cluster))
    }

    /// The template and deployment configuration among `configs`, by their content.
    fn template(&self, configs: &[Config], view: &impl View) -> Read<Option<registration::Sources>> {
        let content = |config: &Config| -> Read<Option<ControllerRevision>> {
            match self.contents.get(config) {
                Some(object) => Ok(Some(snapshot::snapshot(&self.name, config, spec_hash::content(object)))),
                None => Ok(view
                    .get::<ControllerRevision>(&snapshot::key(&self.name, config))?
                    .map(|revision| ControllerRevision::clone(&revision))),
            }
        };
        let find = |is: fn(&Config) -> bool| configs.iter().find(|config| is(config)).map(content).transpose().map(Option::flatten);
        let (template, config) = (find(wire::is_template)?, find(wire::is_deployment_config)?);
        Ok(template.and_then(|template| registration::Sources::read(&template, config.as_ref()).ok()))
    }
}

fn missing_condition(config: &Config) -> Observation {
    let message = format!("{} {} does not exist; clusters keep what they run until it does", config.kind.resource, config.key);
    Observation::new(addon_conditions::PROGRESSING, "False", "ConfigurationMissing", message)
}

/// What a policy's status remembers of one rollout.
fn remembered<'a>(policy: &'a RolloutPolicy, addon: &str, progression: &InstallProgression) -> Option<&'a RolloutStatus> {
    let rollouts = &policy.status.as_ref()?.rollouts;
    rollouts.iter().find(|rollout| {
        rollout.add_on == addon && rollout.placement_namespace == progression.namespace && rollout.placement_name == progression.name
    })
}

fn rollout_status(addon: &str, progression: &InstallProgression, input: &Input, wave: &Wave) -> RolloutStatus {
    let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let counts = wave.counts;
    RolloutStatus {
        add_on: addon.to_owned(),
        placement_namespace: progression.namespace.clone(),
        placement_name: progression.name.clone(),
        revision: input.revision.0.clone(),
        quarantined: wave.quarantine.clone().map(|hash| hash.0).unwrap_or_default(),
        hold: wave.hold.as_ref().map(ToString::to_string).unwrap_or_default(),
        waiting_approvals: wave.approvals.iter().cloned().collect(),
        counts: crate::api::gitops::v1alpha1::RolloutCounts {
            total: count(counts.total),
            done: count(counts.done),
            progressing: count(counts.progressing + counts.starting + counts.soaking),
            failed: count(counts.failed + counts.timed_out + counts.quarantined),
            waiting: count(counts.waiting),
            unreachable: count(counts.unreachable),
            ..Default::default()
        },
        ..RolloutStatus::default()
    }
}

/// The write that makes a policy remember the rollouts of one add-on.
fn remember(policy: &RolloutPolicy, addon: &str, rollouts: Vec<RolloutStatus>) -> Option<Action> {
    let mut new = policy.clone();
    let status = new.status.get_or_insert_default();
    status.rollouts.retain(|rollout| rollout.add_on != addon);
    status.rollouts.extend(rollouts);
    status.rollouts.sort_by(|a, b| {
        let order = |r: &RolloutStatus| (r.add_on.clone(), r.placement_namespace.clone(), r.placement_name.clone());
        order(a).cmp(&order(b))
    });
    StatusWrite::between(policy, &new).map(|write| write.action())
}
