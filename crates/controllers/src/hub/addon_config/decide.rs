//! Decides which cluster runs which configurations, with one call of the rollout engine per placement.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::config_problem::ConfigProblem;
use super::fleet::{AddOnFleet, CachedAddOnRollout};
use super::input::{AddOnInput, AddOnPlacement};
use crate::addon_creation::{is_by_placements, retry_at};
use crate::addon_removal::{Removal, is_by_placement};
use crate::placement_rollout::{PlacementRollout, reason};
use crate::rollout_driver::{CachedRollout, PlacementNode, RolloutDriver, Workload as _, are_decided};
use crate::rollout_policy::{self, RolloutOwner};
use crate::unreadable;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::condition::{Conditions as _, Observation, find_condition, set_condition};
use api::gitops::v1alpha1::{RefusedAddOn, RolloutPolicy, RolloutStatus};
use api::names::addon_conditions::{DEGRADED, PROGRESSING};
use engine::addon::config::{Config, address, resolve};
use engine::addon::selection::UNDECIDED;
use engine::addon::{config_refs, progress};
use engine::plural::counted;
use engine::rollout::cluster::{Cluster, Hash};
use engine::rollout::decision::Assignment;
use engine::rollout::policy::RollOut;
use engine::rollout::state::Wait;
use engine::rollout::{self, ClusterState, Policy, RolloutDecision};
use object::Metadata as _;
use reconcile::{Read, View};

/// The rollouts of an add-on, decided but not written.
#[derive(Default)]
pub(super) struct DecidedAddOn {
    pub(super) rollouts: Vec<PlacementRollout>,
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

impl AddOnInput {
    /// Calls the rollout engine for every placement. An add-on that the hub does not manage has no rollout.
    pub(super) fn decide(&mut self, view: &impl View, now: Timestamp) -> Read<DecidedAddOn> {
        let mut decided = DecidedAddOn { removal: self.removal(view, now)?, ..DecidedAddOn::default() };
        // Keep the changes for the next decision, even if this one covers less.
        self.fleet.rest.look_at(self.changed.intersection(&self.fleet.unselected).cloned());
        let rest = self.fleet.rest.due(self.basis(&[], None), || self.fleet.unselected.clone());
        let (name, changed) = (self.name.clone(), std::mem::take(&mut self.changed));
        let before = std::mem::take(&mut self.fleet.rollouts);
        if !config_refs::is_managed(&self.cma) {
            return Ok(decided);
        }
        let mut driver = RolloutDriver::read(RolloutOwner::AddOn(&name), changed, before, view, now)?;
        let refused = rollout_policy::refused_of(driver.policy.as_deref(), &name);
        driver.changed.extend(self.fleet.take_refused(refused));
        let mut placements = std::mem::take(&mut self.placements);
        let is_decided = are_decided(placements.iter().map(|placement| &placement.node));
        for placement in &mut placements {
            let mut rollout = self.rollout(placement, is_decided, &mut driver)?;
            if let (Some(cached), Ok(decision)) =
                (driver.cached.get_mut(&rollout.placement), &rollout.decision)
            {
                self.assign(cached, decision, &mut decided);
                self.install(cached, decision, now, &mut decided);
            }
            self.report(placement, &mut rollout, &decided.removal, now);
            decided.rollouts.push(rollout);
        }
        (self.placements, self.fleet.rollouts) = (placements, driver.cached);
        if self.settled {
            self.decide_rest(rest, &mut decided, view)?;
        }
        decided.refused = self.refused(&decided, now);
        (decided.policy, decided.records) = (driver.policy, driver.records);
        Ok(decided)
    }

    /// Decides about the clusters of a placement.
    fn rollout<V: View>(
        &mut self,
        placement: &mut AddOnPlacement,
        is_decided: bool,
        driver: &mut RolloutDriver<'_, V, Self>,
    ) -> Read<PlacementRollout> {
        let (AddOnPlacement { node, configs, desired, progression }, now) = (placement, driver.now);
        let revision = Hash(address(desired));
        let is_same = progress::is_of(progression, desired);
        let condition = find_condition(&progression.conditions, PROGRESSING).filter(|_| is_same);
        // Configurations that are already being rolled out were checked before, but maybe less strictly.
        let is_checked =
            !self.is_strict() && condition.is_some_and(|condition| !ConfigProblem::is_reported(condition));
        let is_known = condition.is_some();
        let problem = if is_checked { None } else { self.problem(desired, driver.view)? };
        if let Some(problem) = problem {
            let condition = problem.of_placement();
            driver.before.remove(&node.placement);
            let mut rollout = driver.wait(node, revision, &condition.message);
            // A quarantine and the last valid strategy survive a temporarily missing configuration. A breach does
            // not, because nobody checks whether it still applies.
            rollout.record.iter_mut().for_each(|record| record.late_since = None);
            set_condition(&mut progression.conditions, condition, now);
            return Ok(rollout);
        }
        if !is_decided {
            if !is_known {
                let observed = progress::undecided_condition(node.clusters.count());
                set_condition(&mut progression.conditions, observed, now);
            }
            return Ok(driver.wait(node, revision, UNDECIDED));
        }
        let mut rules = driver.rules(node, revision);
        rules.began = progress::began(progression, desired, now);
        let basis = self.basis(configs, config_refs::last_known_good(&progression.config_references));
        driver.advance(self, node, rules, basis)
    }

    /// Collects the clusters that get new configurations, those that keep theirs but do not report it, and those
    /// that wait for theirs.
    fn assign(
        &mut self,
        cached: &mut CachedAddOnRollout,
        decision: &RolloutDecision,
        decided: &mut DecidedAddOn,
    ) {
        let CachedRollout { members, facts, .. } = cached;
        facts.incomplete.retain(|name, _| members.is_absent(name));
        self.incomplete.extend(facts.incomplete.clone());
        let rollout = &members.rollout;
        for name in rollout.moves() {
            let Some(Assignment { state, assigned: Some(hash), .. }) = decision.clusters.get(name) else {
                continue;
            };
            let Some(configs) = facts.contents.get(hash) else { continue };
            decided.assigned.insert(name.to_owned(), configs.clone());
            if matches!(state, ClusterState::Returning { .. }) {
                decided.returning.insert(name.to_owned());
            }
        }
        let is_ready = |cluster: &&Cluster| {
            cluster.runs.as_ref() == Some(&cluster.wants) && !rollout.is_moved(&cluster.name)
        };
        let clusters = self.fleet.unconfigured.iter().filter_map(|name| rollout.cluster(name));
        decided.ready.extend(clusters.filter(is_ready).map(|cluster| cluster.name.clone()));
        if !self.has_template {
            let clusters = rollout.input().clusters.iter().filter(|cluster| !is_ready(cluster));
            decided.waiting.extend(clusters.map(|cluster| cluster.name.clone()));
        }
    }

    /// Collects the clusters on which a rollout installs the add-on now. A rejected installation is retried while
    /// the rollout continues.
    fn install(
        &self,
        cached: &CachedAddOnRollout,
        decision: &RolloutDecision,
        now: Timestamp,
        decided: &mut DecidedAddOn,
    ) {
        let is_rolled_out = |policy: &Policy| policy.roll_out == RollOut::InstallAndContent && !policy.paused;
        let input = cached.members.rollout.input();
        if !input.policy.as_ref().is_ok_and(is_rolled_out) {
            return;
        }
        let AddOnFleet { addons, unreadable, refused, .. } = &self.fleet;
        let is_started = |state: &ClusterState| {
            matches!(
                state,
                ClusterState::Starting
                    | ClusterState::Progressing { .. }
                    | ClusterState::TimedOut
                    | ClusterState::Returning { .. }
            )
        };
        for (name, assignment) in &decision.clusters {
            if !is_started(&assignment.state) || addons.contains_key(name) || unreadable.contains(name) {
                continue;
            }
            match retry_at(refused, name, now) {
                Some(at) => decided.retry = decided.retry.into_iter().chain([at]).min(),
                None => {
                    decided.installed.insert(name.clone());
                }
            }
        }
    }

    /// Reports a rollout in the status of the add-on, and completes its record.
    fn report(
        &self,
        placement: &mut AddOnPlacement,
        rollout: &mut PlacementRollout,
        removal: &Removal,
        now: Timestamp,
    ) {
        let PlacementRollout {
            input: Some(input),
            decision: Ok(decision),
            record: Some(record),
            failure,
            ..
        } = rollout
        else {
            return;
        };
        let AddOnPlacement { node, desired, progression, configs: _ } = placement;
        let condition = self.condition(node, decision, failure, removal);
        set_condition(&mut progression.conditions, condition, now);
        let is_complete = decision.counts.is_complete();
        progression.config_references =
            config_refs::install_references(desired, &progression.config_references, is_complete);
        let good = config_refs::last_known_good(&progression.config_references);
        record.last_good = good.map(|good| address(&good)).unwrap_or_default();
        if input.strategy.is_ok() {
            record.strategy = Some(node.strategy.clone());
        }
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
                self.fleet.rest.set_done(&cluster);
                continue;
            };
            let own = self.own(Some(&addon), view)?;
            let wants = resolve([self.defaults.as_slice(), &own]);
            let runs = progress::cluster(&addon, &wants).runs;
            let problem = self.problem(&wants, view)?;
            let is_ready = problem.is_none() && runs == Some(Hash(address(&wants)));
            let is_unconfigured = self.fleet.unconfigured.contains(&cluster);
            if is_ready && !is_unconfigured {
                self.fleet.rest.set_done(&cluster);
            }
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
        let of_placements = self.placements.iter().any(|placement| !placement.configs.is_empty());
        are_ours && (!self.defaults.is_empty() || of_placements || !addon.spec.configs.is_empty())
    }

    /// Returns the reported reasons that clusters are not done or are degraded.
    pub(super) fn messages(&self, states: &BTreeMap<String, ClusterState>) -> BTreeMap<String, String> {
        let named = states.iter().filter_map(|(name, state)| {
            let addon = self.fleet.addons.get(name);
            let is_degraded = addon.is_some_and(|addon| addon.holds(DEGRADED));
            Some((name.clone(), reason(state, is_degraded, || self.message(name))?))
        });
        named.collect()
    }
}
