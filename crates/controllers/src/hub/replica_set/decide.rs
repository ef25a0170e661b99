//! Decides which cluster gets which template, with one call of the rollout engine per placement.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::fleet::{CachedSetRollout, SetRolloutBasis};
use super::input::{SetInput, SetPlacement};
use crate::addon_removal::{count, entries, recent, still_counting};
use crate::placement_reads::{answers_since, is_unreachable};
use crate::placement_rollout::PlacementRollout;
use crate::placement_rollout::{MemberRollout, NextRollout, RolloutMember};
use crate::rollout_policy::{self, RolloutOwner, choose};
use api::cluster::v1::ManagedCluster;
use api::gitops::v1alpha1::{RolloutPolicy, RolloutStatus};
use engine::addon::selection::UNDECIDED;
use engine::replica_set::{self, SuccessNeeds, SuccessRule};
use engine::rollout::cluster::{Cluster, Hash};
use engine::rollout::{Input, Policy, Refused, Strategy};
use object::{Key, Metadata as _};
use reconcile::{Read, View};

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
    /// The records of the placements in the status of the policy.
    pub(super) memories: Vec<RolloutStatus>,
    /// True if a cluster in `removed` counts against the removal budget.
    pub(super) is_counted: bool,
    /// Clusters that lose their work.
    pub(super) removed: BTreeSet<String>,
    /// The clusters in `removed` whose removal a person approved.
    pub(super) approved: BTreeSet<String>,
    /// Clusters that were read again.
    read: BTreeSet<String>,
}

/// The input that all placements of a set share.
struct SetContext<'a, V> {
    view: &'a V,
    now: Timestamp,
    policy: Result<Policy, Refused>,
    granted: BTreeSet<String>,
    policies: Vec<Arc<RolloutPolicy>>,
    object: Option<Arc<RolloutPolicy>>,
    records: Vec<RolloutStatus>,
    /// True if the decisions of all placements are complete, so that it is known which placement decides about a
    /// cluster and when the cluster's turn is.
    is_decided: bool,
}

impl SetInput {
    /// Calls the rollout engine for every existing placement.
    pub(super) fn decide<V: View>(&mut self, view: &V, now: Timestamp) -> Read<DecidedRollouts> {
        let subject = RolloutOwner::ReplicaSet(&self.key);
        let (policy, granted) = rollout_policy::policy_for(subject, view)?;
        let policies = rollout_policy::policies_for(subject, view)?;
        let object = choose(&policies, subject).cloned();
        let records = rollout_policy::rollouts_of(subject, object.as_deref(), view)?;
        let is_decided = |node: &SetPlacement| !node.exists || node.clusters.selection.is_decided();
        let is_decided = self.placements.iter().all(is_decided);
        let pass = SetContext { view, now, policy, granted, policies, object, records, is_decided };
        let mut decided = DecidedRollouts {
            rollouts: Vec::new(),
            policies: Vec::new(),
            policy: None,
            has_records: !pass.records.is_empty(),
            memories: Vec::new(),
            is_counted: false,
            removed: BTreeSet::new(),
            approved: BTreeSet::new(),
            read: BTreeSet::new(),
        };
        let (mut cached, mut next) = (self.fleet.rollouts_at(now), BTreeMap::new());
        for node in &self.placements {
            let rollout = self.decide_placement(node, &pass, cached.remove(&node.placement), &mut decided)?;
            next.extend(rollout.map(|rollout| (node.placement.clone(), rollout)));
        }
        self.fleet.rollouts = next;
        self.fleet.open.append(&mut decided.read);
        (decided.policies, decided.policy) = (pass.policies, pass.object);
        Ok(decided)
    }

    /// Decides about the clusters of a placement. Returns the state for the next decision.
    fn decide_placement<V: View>(
        &self,
        node: &SetPlacement,
        pass: &SetContext<'_, V>,
        cached: Option<CachedSetRollout>,
        decided: &mut DecidedRollouts,
    ) -> Read<Option<CachedSetRollout>> {
        let (placement, revision) = (node.placement.clone(), self.revision.clone());
        let remembered = rollout_policy::remembered(&pass.records, &placement);
        if !node.exists || !pass.is_decided {
            let reason = if node.exists {
                UNDECIDED
            } else {
                "the placement does not exist; its works are left unchanged"
            };
            decided.memories.extend(remembered.cloned());
            decided.rollouts.push(PlacementRollout::undecided(placement, revision, reason.to_owned()));
            return Ok(cached.map(|mut cached| {
                cached.members.postpone(&self.changed);
                cached
            }));
        }
        let strategy = Strategy::read(&node.reference.rollout_strategy, node.group_size);
        let mut rules = Input::new(revision.clone(), strategy);
        rules.owner = self.key.to_string();
        rules.policy = pass.policy.clone();
        rules.granted = pass.granted.clone();
        let subject = RolloutOwner::ReplicaSet(&self.key);
        rollout_policy::recall(&mut rules, remembered);
        rules.recent_removals = remembered.map(|it| recent(&it.recent_removals)).unwrap_or_default();
        let good = remembered
            .map(|memory| Hash(memory.last_good.clone()))
            .filter(|hash| self.contents.contains_key(hash));
        let basis = self.basis(&rules, good, pass);
        let reusable = cached.filter(|cached| cached.basis == basis);
        let mut current =
            reusable.unwrap_or_else(|| CachedSetRollout { members: MemberRollout::new(&rules), basis });
        let (clusters, left) = (&node.clusters, self.left(node));
        let next = NextRollout { clusters, left, rules, changed: &self.changed };
        self.read_clusters(&mut current, next, pass, &mut decided.read)?;
        let decision = current.members.rollout.advance(pass.now);
        let input = Arc::clone(current.members.rollout.input());
        decided.removed.extend(decision.removed.iter().cloned());
        decided.approved.extend(decision.approved.iter().cloned());
        decided.is_counted |= !decision.counted.is_empty();
        let mut memory = rollout_policy::rollout_status(subject, &placement, &input, &decision);
        let good = current.basis.good.as_ref();
        let last_good = if decision.counts.is_complete() { Some(&revision) } else { good };
        memory.last_good = last_good.map(|hash| hash.0.clone()).unwrap_or_default();
        let failure = rollout_policy::failure(&decision, remembered, |cluster| self.message(cluster));
        rollout_policy::record_failure(&mut memory, &failure);
        let mut removals = still_counting(input.recent_removals.clone(), &input.policy, pass.now);
        count(&mut removals, &decision.counted, pass.now);
        memory.recent_removals = entries(&removals);
        decided.memories.push(memory);
        let (input, decision) = (Some(input), Ok(decision));
        decided.rollouts.push(PlacementRollout { placement, revision, input, decision, failure });
        Ok(Some(current))
    }

    /// Returns the input that the clusters of a placement share.
    fn basis<V>(&self, rules: &Input, good: Option<Hash>, pass: &SetContext<'_, V>) -> SetRolloutBasis {
        let applied_suffices = rollout_policy::applied_suffices(&pass.policies);
        SetRolloutBasis {
            revision: self.revision.clone(),
            good,
            needs: SuccessNeeds::new(&self.set, applied_suffices),
            soak: soak(rules),
            known: self.contents.keys().cloned().collect(),
            labels: self.set.metadata.labels.clone().unwrap_or_default(),
        }
    }

    /// Updates the clusters of a placement, and those that left it, to their current state.
    fn read_clusters<V: View>(
        &self,
        current: &mut CachedSetRollout,
        next: NextRollout<'_>,
        pass: &SetContext<'_, V>,
        read: &mut BTreeSet<String>,
    ) -> Read<()> {
        let CachedSetRollout { basis, members } = current;
        let rule = SuccessRule {
            wants: &basis.revision,
            good_everywhere: basis.good.as_ref(),
            needs: basis.needs,
            soak: basis.soak,
            now: pass.now,
        };
        members.update(next, |name| {
            read.insert(name.to_owned());
            self.candidate(name, &rule, pass.view)
        })
    }

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
