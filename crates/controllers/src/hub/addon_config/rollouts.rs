//! Keeps the rollouts of an add-on between decisions.
//!
//! A cluster is read again when the cluster, its add-on or a configuration that its add-on names has changed. All
//! clusters of a placement are read again when their common configurations change.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::decide::{AddOnContext, DecidedAddOn};
use super::fleet::{CachedRollout, RolloutBasis};
use super::input::{AddOnInput, ConfigProblem, PlacementNode};
use crate::placement_reads::answers_since;
use crate::placement_rollout::{MemberRollout, NextRollout, RolloutMember};
use api::cluster::v1::ManagedCluster;
use engine::addon::config::{Config, address, resolve};
use engine::addon::{config_refs, progress};
use engine::rollout::cluster::{Cluster, Hash};
use engine::rollout::decision::Assignment;
use engine::rollout::{ClusterState, Input, RolloutDecision};
use object::Key;
use reconcile::{Read, View};

/// A cluster that a placement selects.
enum Candidate {
    /// A cluster as engine input, and the configurations for the hashes that it may be assigned.
    Member(Box<Cluster>, Vec<(Hash, Vec<Config>)>),
    /// A cluster that cannot succeed, so that no rollout waits for it, with the reason if it is a configuration.
    /// See docs/hazards.md#overlapping-placements.
    Absent(Option<ConfigProblem>),
}

impl CachedRollout {
    /// Returns a rollout without clusters.
    pub(super) fn new(basis: RolloutBasis, rules: &Input) -> Self {
        let members = MemberRollout::new(rules);
        Self { basis, members, contents: BTreeMap::new(), incomplete: BTreeMap::new() }
    }
}

impl AddOnInput {
    /// Updates the clusters of a placement to their current state.
    pub(super) fn update<V: View>(
        &mut self,
        current: &mut CachedRollout,
        node: &PlacementNode,
        rules: Input,
        pass: &AddOnContext<'_, V>,
    ) -> Read<()> {
        let CachedRollout { basis, members, contents, incomplete } = current;
        let changed = std::mem::take(&mut self.changed);
        let next = NextRollout { clusters: &node.clusters, left: BTreeMap::new(), rules, changed: &changed };
        members.update(next, |name| {
            incomplete.remove(name);
            match self.candidate(name, node, basis.good.as_deref(), pass.view)? {
                Candidate::Member(read, choices) => {
                    contents.extend(choices);
                    let cluster = read.clone().at(pass.now);
                    Ok(Some(RolloutMember { is_timed: cluster != *read, cluster }))
                }
                Candidate::Absent(problem) => {
                    incomplete.extend(problem.map(|problem| (name.to_owned(), problem)));
                    Ok(None)
                }
            }
        })?;
        incomplete.retain(|name, _| members.is_absent(name));
        self.changed = changed;
        Ok(())
    }

    /// Keeps a rollout until the decisions of the placements are complete.
    pub(super) fn postpone(&mut self, placement: &Key, cached: Option<CachedRollout>) {
        if let Some(mut cached) = cached {
            cached.members.postpone(&self.changed);
            self.fleet.rollouts.insert(placement.clone(), cached);
        }
    }

    /// Returns the input that the clusters of a placement with these configurations share.
    pub(super) fn basis(&self, configs: &[Config], good: Option<Vec<Config>>) -> RolloutBasis {
        RolloutBasis {
            has_template: self.has_template,
            is_strict: self.is_strict(),
            defaults: self.defaults.clone(),
            configs: configs.to_vec(),
            good,
        }
    }

    /// Collects the clusters that get new configurations, those that keep theirs but do not report it, and those
    /// that wait for theirs.
    pub(super) fn assign(
        &self,
        current: &CachedRollout,
        decision: &RolloutDecision,
        decided: &mut DecidedAddOn,
    ) {
        let rollout = &current.members.rollout;
        for name in rollout.moves() {
            let Some(Assignment { state, assigned: Some(hash), .. }) = decision.clusters.get(name) else {
                continue;
            };
            let Some(configs) = current.contents.get(hash) else { continue };
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

    /// Reads a cluster of a placement.
    fn candidate(
        &mut self,
        name: &str,
        node: &PlacementNode,
        good: Option<&[Config]>,
        view: &impl View,
    ) -> Read<Candidate> {
        let addon = self.fleet.addons.get(name).cloned();
        // An unreadable cluster exists, but counts as unreachable.
        let is_unreadable = self.fleet.unreadable.contains(name);
        let managed = if is_unreadable { None } else { view.get::<ManagedCluster>(&Key::cluster(name))? };
        let is_leaving = addon.as_ref().is_some_and(|addon| addon.metadata.deletion_timestamp.is_some());
        let stays = |managed: &Arc<ManagedCluster>| managed.metadata.deletion_timestamp.is_none();
        if is_leaving || !(is_unreadable || managed.as_ref().is_some_and(stays)) {
            return Ok(Candidate::Absent(None));
        }
        let own = self.own(addon.as_deref(), view)?;
        let wants = resolve([self.defaults.as_slice(), &node.configs, &own]);
        if let Some(problem) = self.problem(&wants, view)? {
            return Ok(Candidate::Absent(Some(problem)));
        }
        let unknown =
            || Cluster { name: name.to_owned(), wants: Hash(address(&wants)), ..Cluster::default() };
        let mut cluster = addon.as_ref().map_or_else(unknown, |addon| progress::cluster(addon, &wants));
        cluster.unreachable = self.fleet.unreachable.contains(name);
        let refused = self.fleet.refused.get(name).filter(|_| addon.is_none());
        let turn = refused.filter(|refused| refused.revision == cluster.wants.0);
        cluster.refused_since = turn.and_then(|refused| refused.turn.as_ref()).map(|turn| turn.0);
        cluster.answers_since = managed.as_deref().and_then(answers_since);
        // The creation time of the cluster comes from the hub's clock. The creation time of the add-on would not
        // work, because add-ons appear one after the other during a first rollout.
        let created = managed.as_ref().and_then(|managed| managed.metadata.creation_timestamp.as_ref());
        cluster.joined = created.map(|created| created.0);
        let applied = addon
            .as_ref()
            .and_then(|addon| config_refs::applied(&addon.status.as_ref()?.config_references))
            .filter(|configs| !configs.is_empty());
        // The target of a rollback: the revision that last succeeded on the cluster, or else the last good
        // revision of all clusters combined with the cluster's own configurations. A revision that succeeded
        // everywhere is the last good one itself.
        let good_everywhere = || good.map(|good| resolve([good, &own]));
        let is_other = |configs: &Vec<Config>| address(configs) != cluster.wants.0;
        let good_everywhere = good_everywhere();
        let is_complete = good_everywhere.as_ref().is_some_and(|good| !is_other(good));
        let recorded = addon.as_deref().and_then(progress::last_good).filter(|_| !is_complete);
        let last_good = applied.filter(is_other).or(recorded.filter(is_other)).or(good_everywhere);
        cluster.last_good = last_good.as_ref().map(|configs| Hash(address(configs)));
        if let Some(recovered) = addon.as_deref().and_then(progress::recovered).filter(|_| !is_complete) {
            cluster.restart_soak(recovered);
        }
        let mut choices = vec![(cluster.wants.clone(), wants)];
        choices.extend(cluster.last_good.clone().zip(last_good));
        Ok(Candidate::Member(Box::new(cluster), choices))
    }
}
