//! What the facts come to: who runs what, and in which order that is written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::facts::{Node, Rollout};
use super::memory::{remember, remembered, rollout_status};
use super::{PlacementRollout, answers_since};
use crate::addon_reads;
use api::addon::v1alpha1::{
    ClusterManagementAddOn, ClusterManagementAddOnStatus, InstallProgression, ManagedClusterAddOn,
};
use api::cluster::v1::ManagedCluster;
use api::condition::ConditionStatus::False;
use api::condition::{Observation, set_condition};
use api::gitops::v1alpha1::{RolloutPolicy, RolloutStatus};
use api::names::{SYSTEM_NAMESPACE, addon_conditions};
use engine::addon::config::{Config, address, resolve};
use engine::addon::{config_refs, progress, registration, snapshot, spec_hash};
use engine::rollout::input::Hash;
use engine::rollout::{self, Input, RolloutDecision, Strategy};
use object::{Key, Object};
use reconcile::{Action, Plan, Read, StatusWrite, View};

impl Rollout {
    /// What to write; `tell` hears what each placement's rollout came to.
    pub(super) fn plan(
        mut self,
        view: &impl View,
        now: Timestamp,
        tell: &mut dyn FnMut(PlacementRollout),
    ) -> Read<Plan> {
        if !config_refs::is_managed(&self.cma) {
            return Ok(Plan::nothing());
        }
        let mut plan = Plan::nothing();
        let mut status = ClusterManagementAddOnStatus {
            default_config_references: config_refs::default_references(&self.defaults),
            ..self.cma.status.clone().unwrap_or_default()
        };
        let before = std::mem::take(&mut status.install_progressions);
        let (policy, granted) = addon_reads::policy(&self.name, view)?;
        let memory = addon_reads::policy_object(&self.name, view)?;
        let mut assigned: BTreeMap<String, Vec<Config>> = BTreeMap::new();
        let mut ready = BTreeSet::new();
        let mut rollouts = Vec::new();
        let placements = std::mem::take(&mut self.placements);
        for (node, strategy) in
            placements.iter().zip(self.cma.clone().spec.install_strategy.placements.iter())
        {
            let desired = resolve([self.defaults.as_slice(), &node.configs]);
            let same =
                |p: &&InstallProgression| (&p.namespace, &p.name) == (&strategy.namespace, &strategy.name);
            let placement = Key::namespaced(&strategy.namespace, &strategy.name);
            let mut progression = before.iter().find(same).cloned().unwrap_or_default();
            (progression.namespace, progression.name) = (strategy.namespace.clone(), strategy.name.clone());
            if let Some(config) = self.missing(&desired) {
                let condition = missing_condition(config);
                tell(PlacementRollout {
                    placement,
                    revision: Hash(address(&desired)),
                    input: None,
                    decision: Err(condition.message.clone()),
                });
                set_condition(&mut progression.conditions, condition, now);
                status.install_progressions.push(progression);
                continue;
            }
            let mut input =
                Input::new(address(&desired), Strategy::read(&strategy.rollout_strategy, node.group_size));
            (input.policy, input.granted) = (policy.clone(), granted.clone());
            input.began = progress::began(&mut progression, &desired, now);
            let remembered = memory.as_ref().and_then(|policy| remembered(policy, &self.name, &progression));
            input.quarantined =
                remembered.map(|status| Hash(status.quarantined.clone())).filter(|hash| !hash.0.is_empty());
            let decision =
                self.advance(&mut input, node, &progression, view, (&mut assigned, &mut ready), now)?;
            progression.config_references = config_refs::install_references(
                &desired,
                &progression.config_references,
                decision.is_complete(),
            );
            let own = node.selection.clusters().filter(|cluster| !node.taken.contains(*cluster)).count();
            let condition = progress::placement_condition(node.selection.clusters().count(), own, &decision);
            set_condition(&mut progression.conditions, condition, now);
            decision.recheck.into_iter().for_each(|at| plan.wake(at));
            rollouts.push(rollout_status(&self.name, &progression, &input, &decision));
            status.install_progressions.push(progression);
            let revision = input.revision.clone();
            tell(PlacementRollout { placement, revision, input: Some(input), decision: Ok(decision) });
        }
        self.placements = placements;
        self.rest(&mut assigned, view)?;
        self.write(
            &mut plan,
            &assigned,
            &ready,
            memory.as_deref().map(|policy| (policy, rollouts)),
            view,
            now,
        )?;
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
    ) -> Read<RolloutDecision> {
        let good: Option<Vec<Config>> = progression
            .config_references
            .iter()
            .map(|r| Some(config_refs::hashed(&r.group, &r.resource, r.last_known_good_config.as_ref()?)))
            .collect();
        let good = good.filter(|configs| !configs.is_empty());
        let mut choices: BTreeMap<String, Vec<(Hash, Vec<Config>)>> = BTreeMap::new();
        let mut absent = node.taken.clone();
        let clusters: Vec<String> = node
            .selection
            .clusters()
            .filter(|cluster| !node.taken.contains(*cluster))
            .map(str::to_owned)
            .collect();
        for name in clusters {
            let addon = self.addons.get(&name).cloned();
            let managed = view.get::<ManagedCluster>(&Key::cluster(&name))?;
            let going = addon.as_ref().is_some_and(|addon| addon.metadata.deletion_timestamp.is_some());
            let Some(managed) =
                managed.filter(|managed| managed.metadata.deletion_timestamp.is_none() && !going)
            else {
                // Neither will ever arrive, and a rollout must not wait for it.
                // See docs/hazards.md#overlapping-placements.
                absent.insert(name);
                continue;
            };
            let own = self.own(addon.as_deref(), view)?;
            let wants = resolve([self.defaults.as_slice(), &node.configs, &own]);
            if self.missing(&wants).is_some() {
                absent.insert(name);
                continue;
            }
            let mut cluster = match &addon {
                Some(addon) => progress::cluster(addon, &wants),
                None => rollout::input::Cluster {
                    name: name.clone(),
                    wants: Hash(address(&wants)),
                    ..Default::default()
                },
            };
            cluster.unreachable = self.unreachable.contains(&name);
            cluster.answers_since = answers_since(&managed);
            // By the hub's clock, and before any add-on of a first rollout: add-ons appear one after the other while it goes on.
            cluster.joined = managed.metadata.creation_timestamp.as_ref().map(|created| created.0);
            let applied = addon
                .as_ref()
                .and_then(|addon| config_refs::applied(&addon.status.as_ref()?.config_references))
                .filter(|c| !c.is_empty());
            // A cluster that already succeeded with what may turn out bad elsewhere returns to what was good everywhere, but keeps its own.
            let good_everywhere = || good.as_deref().map(|good| resolve([good, &own]));
            let last_good =
                applied.filter(|configs| address(configs) != cluster.wants.0).or_else(good_everywhere);
            cluster.last_good = last_good.as_ref().map(|configs| Hash(address(configs)));
            let mut known = vec![(cluster.wants.clone(), wants)];
            known.extend(last_good.map(|configs| (Hash(address(&configs)), configs)));
            choices.insert(name, known);
            input.clusters.push(cluster);
        }
        input.groups = node.selection.without(&absent);
        let decision = rollout::advance(input, now);
        for cluster in &input.clusters {
            let Some(assignment) = decision.clusters.get(&cluster.name) else { continue };
            let known = choices.get(&cluster.name).into_iter().flatten();
            let choice = known.into_iter().find(|(hash, _)| assignment.assigned.as_ref() == Some(hash));
            if assignment.assigned == cluster.runs {
                if cluster.runs.as_ref() == Some(&cluster.wants) {
                    ready.insert(cluster.name.clone());
                }
            } else if let Some((_, configs)) = choice {
                assigned.insert(cluster.name.clone(), configs.clone());
            }
        }
        Ok(decision)
    }

    /// Add-ons that no placement selects get what they should run at once, but not while placements are unsettled: then they may well be
    /// a placement's.
    fn rest(&mut self, assigned: &mut BTreeMap<String, Vec<Config>>, view: &impl View) -> Read<()> {
        let selected: BTreeSet<String> =
            self.placements.iter().flat_map(|node| node.selection.clusters()).map(str::to_owned).collect();
        let rest: Vec<_> =
            self.addons.iter().filter(|(cluster, _)| self.settled && !selected.contains(*cluster)).collect();
        let rest: Vec<_> =
            rest.into_iter().map(|(cluster, addon)| (cluster.clone(), Arc::clone(addon))).collect();
        for (cluster, addon) in
            rest.into_iter().filter(|(_, addon)| addon.metadata.deletion_timestamp.is_none())
        {
            let own = self.own(Some(&addon), view)?;
            let wants = resolve([self.defaults.as_slice(), &own]);
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
                let generation =
                    |config: &Config| self.contents.get(config).map(Object::generation).unwrap_or_default();
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
        self.placements.iter().any(|node| {
            node.selection.clusters().any(|name| name == cluster) && !node.taken.contains(cluster)
        })
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
        let find = |is: fn(&Config) -> bool| {
            configs.iter().find(|config| is(config)).map(content).transpose().map(Option::flatten)
        };
        let (template, config) = (find(config_refs::is_template)?, find(config_refs::is_deployment_config)?);
        Ok(template.and_then(|template| registration::Sources::read(&template, config.as_ref()).ok()))
    }
}

fn missing_condition(config: &Config) -> Observation {
    let message = format!(
        "{} {} does not exist; clusters keep what they run until it does",
        config.kind.resource, config.key
    );
    Observation::new(addon_conditions::PROGRESSING, False, "ConfigurationMissing").message(message)
}
