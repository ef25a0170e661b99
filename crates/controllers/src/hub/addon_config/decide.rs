//! Decides which cluster runs which configurations, with one call of the rollout engine per placement.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::fleet::{AddOnFleet, CachedRollout};
use super::input::{AddOnInput, ConfigProblem, INVALID, MISSING, PlacementNode};
use crate::MESSAGE;
use crate::addon_creation::is_by_placements;
use crate::addon_removal::{Removal, is_by_placement};
use crate::placement_rollout::PlacementRollout;
use crate::rollout_policy::{self, RolloutOwner};
use crate::unreadable;
use api::addon::v1alpha1::{ClusterManagementAddOnStatus, InstallProgression, ManagedClusterAddOn};
use api::condition::ConditionStatus::False;
use api::condition::{Condition, Conditions as _, Observation, find_condition, set_condition};
use api::gitops::v1alpha1::{RefusedAddOn, RolloutPolicy, RolloutStatus};
use api::names::addon_conditions;
use engine::addon::config::{Config, address, resolve};
use engine::addon::selection::UNDECIDED;
use engine::addon::{config_refs, progress};
use engine::plural::counted;
use engine::rollout::cluster::{Cluster, Hash};
use engine::rollout::state::Wait;
use engine::rollout::{self, ClusterState, Input, Policy, Refused, RolloutDecision, Strategy};
use object::text::plain;
use object::{Key, Metadata as _};
use reconcile::{Read, View};

/// The rollouts of an add-on, decided but not written.
#[derive(Default)]
pub(super) struct DecidedAddOn {
    pub(super) rollouts: Vec<PlacementRollout>,
    /// The entries of the placements in the status of the add-on.
    pub(super) progressions: Vec<InstallProgression>,
    /// The records of the placements in the status of the policy.
    pub(super) memories: Vec<RolloutStatus>,
    /// Clusters with new configurations.
    pub(super) assigned: BTreeMap<String, Vec<Config>>,
    /// The assigned clusters that return to earlier configurations, because their wanted ones are quarantined.
    pub(super) returning: BTreeSet<String>,
    /// Clusters that were assigned their wanted configurations, but whose status does not say so yet.
    pub(super) ready: BTreeSet<String>,
    /// Clusters of an add-on without templates that wait for their wanted configurations.
    pub(super) waiting: BTreeSet<String>,
    /// The removal of the add-on from clusters that no placement selects any longer.
    pub(super) removal: Removal,
    pub(super) policy: Option<Arc<RolloutPolicy>>,
    /// The records of the last decision.
    pub(super) records: Vec<RolloutStatus>,
    /// Clusters on which the add-on is installed now, because the policy rolls out its installation.
    pub(super) installed: BTreeSet<String>,
    /// The time at which a rejected installation is retried.
    pub(super) retry: Option<Timestamp>,
    /// The record of the clusters on which the API server rejects the add-on.
    pub(super) refused: Vec<RefusedAddOn>,
}

/// The input that all placements of an add-on share.
pub(super) struct AddOnContext<'a, V> {
    pub(super) view: &'a V,
    pub(super) now: Timestamp,
    status: ClusterManagementAddOnStatus,
    policy: Result<Policy, Refused>,
    granted: BTreeSet<String>,
    memory: Option<Arc<RolloutPolicy>>,
    records: Vec<RolloutStatus>,
    /// True if the decisions of all placements are complete, so that it is known which placement decides about a
    /// cluster and when the cluster's turn is.
    is_decided: bool,
}

impl DecidedAddOn {
    fn add(
        &mut self,
        rollout: PlacementRollout,
        progression: InstallProgression,
        memory: Option<RolloutStatus>,
    ) {
        self.rollouts.push(rollout);
        self.progressions.push(progression);
        self.memories.extend(memory);
    }
}

impl AddOnInput {
    /// Calls the rollout engine for every placement. An add-on that the hub does not manage has no rollout.
    pub(super) fn decide(&mut self, view: &impl View, now: Timestamp) -> Read<DecidedAddOn> {
        let mut decided = DecidedAddOn { removal: self.removal(view, now)?, ..DecidedAddOn::default() };
        // Keep the changes for the next decision, even if this one covers less.
        let mut cached = self.fleet.rollouts_at(now);
        let rest = self.fleet.rest(self.basis(&[], None), &self.changed);
        if !config_refs::is_managed(&self.cma) {
            return Ok(decided);
        }
        let subject = RolloutOwner::AddOn(&self.name);
        let (policy, granted) = rollout_policy::policy_for(subject, view)?;
        let memory = rollout_policy::object_for(subject, view)?;
        let records = rollout_policy::rollouts_of(subject, memory.as_deref(), view)?;
        let refused = rollout_policy::refused_of(memory.as_deref(), &self.name);
        let changed = self.fleet.take_refused(refused);
        self.changed.extend(changed);
        let status = self.cma.status.clone().unwrap_or_default();
        let is_decided = |node: &PlacementNode| !node.exists || node.clusters.selection.is_decided();
        let is_decided = self.placements.iter().all(is_decided);
        let pass = AddOnContext { view, now, status, policy, granted, memory, records, is_decided };
        let placements = std::mem::take(&mut self.placements);
        for node in &placements {
            self.decide_placement(node, &pass, cached.remove(&node.placement), &mut decided)?;
        }
        self.placements = placements;
        if self.settled {
            self.decide_rest(rest, &mut decided, view)?;
        }
        decided.refused = self.refused(&decided, now);
        (decided.policy, decided.records) = (pass.memory, pass.records);
        Ok(decided)
    }

    fn decide_placement<V: View>(
        &mut self,
        node: &PlacementNode,
        pass: &AddOnContext<'_, V>,
        cached: Option<CachedRollout>,
        decided: &mut DecidedAddOn,
    ) -> Read<()> {
        let desired = resolve([self.defaults.as_slice(), &node.configs]);
        let revision = Hash(address(&desired));
        let Key { namespace, name } = node.placement.clone();
        let before = pass.status.install_progressions.iter();
        let before = before.clone().find(|p| (&p.namespace, &p.name) == (&namespace, &name)).cloned();
        let mut progression = InstallProgression { namespace, name, ..before.unwrap_or_default() };
        let placement = node.placement.clone();
        // Configurations that are already being rolled out were checked before, but maybe less strictly.
        let condition = find_condition(&progression.conditions, addon_conditions::PROGRESSING);
        let is_checked = !self.is_strict()
            && progress::is_of(&progression, &desired)
            && condition.is_some_and(|condition| !ConfigProblem::is_reported(condition));
        let problem = if is_checked { None } else { self.problem(&desired, pass.view)? };
        let remembered = rollout_policy::remembered(&pass.records, &node.placement);
        if let Some(problem) = problem {
            // A quarantine and the last valid strategy survive a temporarily missing configuration. A breach does
            // not, because nobody checks whether it still applies.
            let memory = remembered.cloned().map(|memory| RolloutStatus { late_since: None, ..memory });
            let condition = problem.of_placement();
            let rollout = PlacementRollout::undecided(placement, revision, condition.message.clone());
            set_condition(&mut progression.conditions, condition, pass.now);
            decided.add(rollout, progression, memory);
            return Ok(());
        }
        if !pass.is_decided {
            self.postpone(&placement, cached);
            if condition.is_none() || !progress::is_of(&progression, &desired) {
                let observed = progress::undecided_condition(node.clusters.count());
                set_condition(&mut progression.conditions, observed, pass.now);
            }
            let rollout = PlacementRollout::undecided(placement, revision, UNDECIDED.to_owned());
            decided.add(rollout, progression, remembered.cloned());
            return Ok(());
        }
        let mut rules = Input::new(revision.clone(), Strategy::read(&node.rollout_strategy, node.group_size));
        rules.owner.clone_from(&self.name);
        rules.policy = pass.policy.clone();
        rules.granted = pass.granted.clone();
        rules.began = progress::began(&mut progression, &desired, pass.now);
        rollout_policy::recall(&mut rules, remembered);
        let last_strategy = remembered.and_then(|status| status.strategy.clone());
        rules.last_strategy =
            last_strategy.as_ref().and_then(|last| Strategy::read(last, node.group_size).ok());
        let good = config_refs::last_known_good(&progression.config_references);
        let basis = self.basis(&node.configs, good);
        let reusable = cached.filter(|cached| cached.basis == basis);
        let mut current = reusable.unwrap_or_else(|| CachedRollout::new(basis, &rules));
        self.update(&mut current, node, rules, pass)?;
        let decision = current.members.rollout.advance(pass.now);
        let input = Arc::clone(current.members.rollout.input());
        self.incomplete.extend(current.incomplete.clone());
        self.assign(&current, &decision, decided);
        self.fleet.rollouts.insert(placement.clone(), current);
        self.install(&input, &decision, pass.now, decided);
        progression.config_references = config_refs::install_references(
            &desired,
            &progression.config_references,
            decision.counts.is_complete(),
        );
        let failure = rollout_policy::failure(&decision, remembered, |cluster| self.message(cluster));
        let condition = self.condition(node, &decision, &failure, &decided.removal);
        set_condition(&mut progression.conditions, condition, pass.now);
        let subject = RolloutOwner::AddOn(&self.name);
        let mut memory = rollout_policy::rollout_status(subject, &placement, &input, &decision);
        let good = config_refs::last_known_good(&progression.config_references);
        memory.last_good = good.map(|good| address(&good)).unwrap_or_default();
        memory.strategy =
            if input.strategy.is_ok() { Some(node.rollout_strategy.clone()) } else { last_strategy };
        rollout_policy::record_failure(&mut memory, &failure);
        let (input, decision) = (Some(input), Ok(decision));
        let rollout = PlacementRollout { placement, revision, input, decision, failure };
        decided.add(rollout, progression, Some(memory));
        Ok(())
    }

    /// Returns the record of the clusters on which the API server rejects the add-on. For clusters that start now,
    /// sets the time of their turn.
    fn refused(&self, decided: &DecidedAddOn, now: Timestamp) -> Vec<RefusedAddOn> {
        let starts = |cluster: &str| {
            let decisions = decided.rollouts.iter().filter_map(|rollout| rollout.decision.as_ref().ok());
            let mut assignments = decisions.filter_map(|decision| decision.clusters.get(cluster));
            assignments.find(|assignment| assignment.state == ClusterState::Starting)?.assigned.as_ref()
        };
        let AddOnFleet { addons, selected, refused, .. } = &self.fleet;
        let is_open = |name: &String| selected.contains(name) && !addons.contains_key(name);
        let open = refused.iter().filter(|(name, _)| is_open(name));
        open.map(|(name, refused)| match starts(name) {
            Some(Hash(revision)) => {
                RefusedAddOn { revision: revision.clone(), turn: Some(Time(now)), ..refused.clone() }
            }
            None => refused.clone(),
        })
        .collect()
    }

    /// Returns the condition of the rollout on a placement.
    fn condition(
        &self,
        node: &PlacementNode,
        decision: &RolloutDecision,
        failure: &str,
        removal: &Removal,
    ) -> Observation {
        let own = node.clusters.count();
        let selected = node.clusters.selection.clusters().count();
        let mut condition = progress::placement_condition(selected, own, node.exists, decision);
        let errors = self.fleet.errors_of(decision);
        let is_named = errors.first.is_some_and(|(cluster, _)| failure.starts_with(&format!("{cluster}: ")));
        if let Some(errors) = errors.words() {
            condition.message.push_str(&format!(" {}.", errors.trim_end_matches('.')));
        }
        if !failure.is_empty() && !is_named {
            condition.message.push_str(&format!(" {}.", failure.trim_end_matches('.')));
        }
        if !node.exists {
            condition.message.push_str(" The placement does not exist.");
        }
        if let Some(at) = node.clusters.selection.settles
            && self.fleet.unselected_addons().iter().any(|addon| is_by_placement(addon))
        {
            let wait = "Another scheduler selects the clusters; unselected clusters keep the add-on until";
            condition.message.push_str(&format!(" {wait} {at}."));
        }
        let AddOnFleet { addons, refused, .. } = &self.fleet;
        if failure.is_empty() && !refused.is_empty() {
            let clusters = node.clusters.iter().filter(|name| !addons.contains_key(*name));
            let mut refused = clusters.filter_map(|name| refused.get(name));
            if let Some(first) = refused.next() {
                let clusters = counted(1 + refused.count(), "cluster");
                let reason = first.message.trim_end_matches('.');
                let addition = format!(" The add-on cannot be created on {clusters}: {reason}.");
                condition.message.push_str(&addition);
            }
        }
        if !self.fleet.unreadable.is_empty() {
            let refused = node.clusters.iter().filter(|name| self.fleet.unreadable.contains(*name));
            unreadable::append(&mut condition.message, &refused.map(str::to_owned).collect::<Vec<_>>());
        }
        if !removal.decision.kept.is_empty() {
            condition.message.push_str(&format!(" {removal}."));
        }
        condition
    }

    /// Assigns configurations immediately to add-ons that no placement selects. While placements are unsettled,
    /// one of them may still select such an add-on. An add-on that a placement installed keeps what it runs while
    /// it waits for removal, which a budget may delay for a long time.
    fn decide_rest(
        &mut self,
        due: BTreeSet<String>,
        decided: &mut DecidedAddOn,
        view: &impl View,
    ) -> Read<()> {
        let by_placements = is_by_placements(&self.cma);
        for cluster in due {
            let addon = self.fleet.addons.get(&cluster).filter(|_| self.fleet.unselected.contains(&cluster));
            let is_leaving = |addon: &Arc<ManagedClusterAddOn>| {
                addon.is_terminating() || by_placements && is_by_placement(addon)
            };
            let Some(addon) = addon.filter(|addon| !is_leaving(addon)).cloned() else {
                self.fleet.set_open(&cluster, false);
                continue;
            };
            let own = self.own(Some(&addon), view)?;
            let wants = resolve([self.defaults.as_slice(), &own]);
            let runs = progress::cluster(&addon, &wants).runs;
            let problem = self.problem(&wants, view)?;
            let is_ready = problem.is_none() && runs == Some(Hash(address(&wants)));
            let is_unconfigured = self.fleet.unconfigured.contains(&cluster);
            self.fleet.set_open(&cluster, !is_ready || is_unconfigured);
            if let Some(problem) = problem {
                self.incomplete.insert(cluster, problem);
            } else if !is_ready {
                decided.assigned.insert(cluster, wants);
            } else if is_unconfigured {
                decided.ready.insert(cluster);
            }
        }
        Ok(())
    }

    /// Returns the state of every cluster that has or gets the add-on, from the decision of its rollout or,
    /// without a rollout, from the add-on's status. A cluster that never received its configuration is not done.
    pub(super) fn states<'a>(
        &'a self,
        decided: &'a DecidedAddOn,
        now: Timestamp,
    ) -> BTreeMap<&'a str, Cow<'a, ClusterState>> {
        let decisions = decided.rollouts.iter().filter_map(|rollout| rollout.decision.as_ref().ok());
        let clusters = decisions.flat_map(|decision| &decision.clusters);
        let mut states: BTreeMap<&str, Cow<'_, ClusterState>> =
            clusters.map(|(name, assignment)| (name.as_str(), Cow::Borrowed(&assignment.state))).collect();
        for (name, addon) in &self.fleet.addons {
            states.entry(name).or_insert_with(|| {
                let runs = config_refs::assigned(addon);
                let wants = decided.assigned.get(name).cloned().or(runs).unwrap_or_default();
                if wants.is_empty() && self.has_configurations(addon) {
                    return Cow::Owned(ClusterState::Waiting(Wait::Unassigned));
                }
                let unreachable = self.fleet.unreachable.contains(name);
                let cluster = Cluster { unreachable, ..progress::cluster(addon, &wants) };
                Cow::Owned(rollout::observe(&cluster.at(now), now))
            });
        }
        states
    }
}

impl AddOnInput {
    /// Returns true if the cluster's add-on runs configurations that a rollout assigns.
    fn has_configurations(&self, addon: &ManagedClusterAddOn) -> bool {
        let are_ours = config_refs::is_managed(&self.cma);
        let of_placements = self.placements.iter().any(|node| !node.configs.is_empty());
        are_ours && (!self.defaults.is_empty() || of_placements || !addon.spec.configs.is_empty())
    }

    /// Returns the reported reasons that clusters are not done or are degraded.
    pub(super) fn messages(&self, states: &BTreeMap<String, ClusterState>) -> BTreeMap<String, String> {
        let is_degraded = |cluster: &str| {
            self.fleet.addons.get(cluster).is_some_and(|addon| addon.holds(addon_conditions::DEGRADED))
        };
        let open = states.iter().filter(|(name, state)| match state {
            ClusterState::Failed { .. }
            | ClusterState::TimedOut
            | ClusterState::Progressing { .. }
            | ClusterState::Unreachable { .. }
            | ClusterState::Returning { .. } => true,
            ClusterState::Done => is_degraded(name),
            ClusterState::Soaking { .. }
            | ClusterState::Starting
            | ClusterState::Waiting(_)
            | ClusterState::Skipped
            | ClusterState::Returned { .. }
            | ClusterState::Quarantined => false,
        });
        let named = open.filter_map(|(name, state)| {
            let message = self.message(name)?;
            let is_done = *state == ClusterState::Done;
            Some((name.clone(), if is_done { format!("not available: {message}") } else { message }))
        });
        named.collect()
    }

    fn message(&self, cluster: &str) -> Option<String> {
        let Some(addon) = self.fleet.addons.get(cluster) else {
            return self.fleet.refused.get(cluster).map(|refused| refused.message.clone());
        };
        let conditions = &addon.status.as_ref()?.conditions;
        let message = progress::message(conditions)?;
        Some(plain(message, MESSAGE)).filter(|message| !message.is_empty())
    }
}

impl ConfigProblem {
    fn is_reported(condition: &Condition) -> bool {
        [MISSING, INVALID].contains(&condition.reason.as_str())
    }

    /// Returns the condition of a placement in the status of the add-on.
    fn of_placement(&self) -> Observation {
        let message = format!("{}; until this is fixed, clusters keep what they run", self.message);
        Observation::new(addon_conditions::PROGRESSING, False, self.reason).message(message)
    }

    /// Returns the condition for an add-on with its own configuration.
    pub(super) fn of_cluster(&self) -> Observation {
        let message = format!("{}; until this is fixed, the cluster keeps what it runs", self.message);
        Observation::new(addon_conditions::CONFIGURED, False, self.reason).message(message)
    }
}
