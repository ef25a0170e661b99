//! Decides which cluster gets which template, with one call of the rollout engine per placement.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::fleet::SetRolloutBasis;
use super::input::SetInput;
use crate::MESSAGE;
use crate::placement_reads::{answers_since, is_unreachable};
use crate::placement_rollout::{PlacementRollout, RolloutMember};
use crate::rollout_driver::{PlacementNode, RolloutDriver, Workload, are_decided};
use crate::rollout_policy::{self, RolloutOwner};
use api::cluster::v1::ManagedCluster;
use api::gitops::v1alpha1::{RolloutPolicy, RolloutStatus};
use engine::addon::selection::UNDECIDED;
use engine::replica_set::{self, SuccessNeeds, SuccessRule};
use engine::report::WorkloadCluster;
use engine::rollout::cluster::{Cluster, Hash};
use engine::rollout::{ClusterState, Input, RolloutDecision};
use object::text::plain;
use object::{Key, Metadata as _};
use reconcile::{Read, View};

/// The reason that nothing is decided about a placement.
const NO_PLACEMENT: &str = "the placement does not exist; its works are left unchanged";

/// The rollouts of a set, decided but not written.
pub(super) struct DecidedRollouts {
    /// The rollout of each placement.
    pub(super) rollouts: Vec<PlacementRollout>,
    /// The RolloutPolicies that apply to the set.
    pub(super) policies: Vec<Arc<RolloutPolicy>>,
    /// The policy with the set's records.
    pub(super) policy: Option<Arc<RolloutPolicy>>,
    /// True if a policy has records of the last decision.
    pub(super) has_records: bool,
}

impl DecidedRollouts {
    pub(super) fn decisions(&self) -> impl Iterator<Item = &RolloutDecision> {
        self.rollouts.iter().filter_map(|rollout| rollout.decision.as_deref().ok())
    }

    /// Returns the new records of the placements.
    pub(super) fn records(&self) -> Vec<RolloutStatus> {
        self.rollouts.iter().filter_map(|rollout| rollout.record.clone()).collect()
    }
}

impl SetInput {
    /// Calls the rollout engine for every existing placement.
    pub(super) fn decide(&mut self, view: &impl View, now: Timestamp) -> Read<DecidedRollouts> {
        let (key, changed) = (self.key.clone(), std::mem::take(&mut self.changed));
        let before = std::mem::take(&mut self.fleet.rollouts);
        let mut driver = RolloutDriver::read(RolloutOwner::ReplicaSet(&key), changed, before, view, now)?;
        let placements = std::mem::take(&mut self.placements);
        let is_decided = are_decided(&placements);
        let mut rollouts = Vec::new();
        for node in &placements {
            rollouts.push(match (node.exists, is_decided) {
                (true, true) => self.rollout(node, &mut driver)?,
                (true, false) => driver.wait(node, self.revision.clone(), UNDECIDED),
                (false, _) => driver.wait(node, self.revision.clone(), NO_PLACEMENT),
            });
        }
        (self.placements, self.fleet.rollouts) = (placements, driver.cached);
        let RolloutDriver { policies, policy, records, .. } = driver;
        Ok(DecidedRollouts { rollouts, policies, policy, has_records: !records.is_empty() })
    }

    /// Decides about the clusters of a placement.
    fn rollout<V: View>(
        &mut self,
        node: &PlacementNode,
        driver: &mut RolloutDriver<'_, V, Self>,
    ) -> Read<PlacementRollout> {
        let rules = driver.rules(node, self.revision.clone());
        let good = driver.record(&node.placement).map(|record| Hash(record.last_good.clone()));
        let good = good.filter(|hash| self.contents.contains_key(hash));
        let basis = SetRolloutBasis {
            revision: self.revision.clone(),
            good: good.clone(),
            needs: SuccessNeeds::new(&self.set, rollout_policy::applied_suffices(&driver.policies)),
            soak: soak(&rules),
            known: self.contents.keys().cloned().collect(),
            labels: self.set.metadata.labels.clone().unwrap_or_default(),
        };
        let mut rollout = driver.advance(self, node, rules, basis)?;
        if let (Some(record), Ok(decision)) = (&mut rollout.record, &rollout.decision) {
            let good = if decision.counts.is_complete() { Some(self.revision.clone()) } else { good };
            record.last_good = good.map(|hash| hash.0).unwrap_or_default();
        }
        Ok(rollout)
    }
}

impl Workload for SetInput {
    type Basis = SetRolloutBasis;
    type Facts = ();

    fn cluster(
        &mut self,
        name: &str,
        (basis, ()): (&SetRolloutBasis, &mut ()),
        view: &impl View,
        now: Timestamp,
    ) -> Read<Option<RolloutMember>> {
        // Its work may have to be written.
        self.fleet.open.insert(name.to_owned());
        let rule = SuccessRule {
            wants: &basis.revision,
            good_everywhere: basis.good.as_ref(),
            needs: basis.needs,
            soak: basis.soak,
            now,
        };
        self.candidate(name, &rule, view)
    }

    fn message(&self, cluster: &str) -> Option<String> {
        let work = self.fleet.works.get(cluster).map(|(work, runs)| (work.as_ref(), runs));
        let state = WorkloadCluster::from_work(cluster, &ClusterState::TimedOut, work);
        let message = plain(&state.message, MESSAGE);
        Some(message).filter(|message| !message.is_empty())
    }
}

impl SetInput {
    /// Returns a cluster as engine input; `None` if it is leaving or gone, so that no rollout waits for it.
    fn candidate(&self, name: &str, rule: &SuccessRule<'_>, view: &impl View) -> Read<Option<RolloutMember>> {
        // An unreadable cluster exists, but counts as unreachable.
        let managed = match view.get::<ManagedCluster>(&Key::cluster(name)) {
            Ok(Some(managed)) if !managed.is_terminating() => Some(managed),
            Ok(_) => return Ok(None),
            Err(error) if error.is_unreadable() => None,
            Err(error) => return Err(error),
        };
        let unknown =
            || Cluster { name: name.to_owned(), wants: self.revision.clone(), ..Cluster::default() };
        let work = self.fleet.works.get(name);
        let mut cluster =
            work.map_or_else(unknown, |(work, runs)| replica_set::cluster(work, runs.clone(), rule));
        if cluster.last_good.as_ref().is_none_or(|good| !self.contents.contains_key(good)) {
            cluster.last_good = rule.good_everywhere.cloned();
        }
        let is_recorded = work.is_none_or(|(work, _)| replica_set::is_recorded(work, &cluster));
        cluster.unreachable =
            self.fleet.unreadable.contains(name) || managed.as_deref().is_none_or(is_unreachable);
        cluster.answers_since = managed.as_deref().and_then(answers_since);
        let created = managed.as_ref().and_then(|managed| managed.metadata.creation_timestamp.as_ref());
        cluster.joined = created.map(|created| created.0);
        Ok(Some(RolloutMember { cluster, is_timed: !is_recorded }))
    }
}

/// Returns how long a success must last for the engine.
fn soak(input: &Input) -> SignedDuration {
    let by_strategy = input.strategy.as_ref().ok().and_then(|strategy| strategy.limits().soak);
    let by_policy = input.policy.as_ref().map(|policy| policy.soak).unwrap_or_default();
    by_strategy.map(|soak| soak.max(by_policy)).unwrap_or_default()
}
