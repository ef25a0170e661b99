//! The rollout of content over the clusters of placements, for add-ons and ManifestWorkReplicaSets.
//!
//! A [`Workload`] names a revision for each placement and reads what each cluster runs. The [`RolloutDriver`] does
//! the rest in the same way for every workload: it applies the rules and records of the RolloutPolicies, calls the
//! engine, and makes the new records. The workload then assigns what was decided.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::placement_reads::{Selections, group_size};
use crate::placement_rollout::{
    MemberRollout, NextRollout, PlacementClusters, PlacementRollout, RolloutMember,
};
use crate::rollout_policy::{self, RolloutOwner};
use api::cluster::v1alpha1::RolloutStrategy;
use api::cluster::v1beta1::Placement;
use api::gitops::v1alpha1::{RolloutPolicy, RolloutStatus};
use engine::rollout::cluster::{Hash, Instance};
use engine::rollout::{Input, Policy, Refused, Size, Strategy};
use object::Key;
use reconcile::{Read, View};

/// Content that is rolled out to the clusters of placements.
pub(super) trait Workload {
    /// The input that all clusters of a placement share. If it changes, all of them are read again.
    type Basis: PartialEq;
    /// Facts about the clusters of a placement that the engine does not read.
    type Facts: Default;

    /// Reads a cluster of a placement; `None` if the rollout skips it.
    fn cluster(
        &mut self,
        name: &str,
        cached: (&Self::Basis, &mut Self::Facts),
        view: &impl View,
        now: Timestamp,
    ) -> Read<Option<RolloutMember>>;

    /// Returns the reported reason that a cluster failed.
    fn message(&self, cluster: &str) -> Option<String>;
}

/// A placement of a workload.
pub(super) struct PlacementNode {
    pub(super) placement: Key,
    pub(super) exists: bool,
    pub(super) strategy: RolloutStrategy,
    pub(super) group_size: Option<Size>,
    pub(super) clusters: PlacementClusters,
    /// The content that the rollout removes from clusters that no placement selects any longer.
    pub(super) left: BTreeMap<String, Instance>,
}

impl PlacementNode {
    pub(super) fn read(
        placement: Key,
        strategy: &RolloutStrategy,
        selections: &mut Selections,
        view: &impl View,
        now: Timestamp,
    ) -> Read<Self> {
        let object = view.get::<Placement>(&placement)?;
        let selection = selections.of(&placement, view, now)?;
        Ok(Self {
            placement,
            exists: object.is_some(),
            strategy: strategy.clone(),
            group_size: object.as_deref().and_then(group_size),
            clusters: PlacementClusters { selection, taken: Arc::default() },
            left: BTreeMap::new(),
        })
    }
}

/// The rollout on the clusters of a placement, kept between decisions.
pub(super) struct CachedRollout<B, F> {
    pub(super) basis: B,
    pub(super) members: MemberRollout,
    pub(super) facts: F,
    /// The time of the last decision.
    decided: Timestamp,
}

/// The cached rollouts of a workload, by placement.
pub(super) type CachedRollouts<W> =
    BTreeMap<Key, CachedRollout<<W as Workload>::Basis, <W as Workload>::Facts>>;

/// One decision about all placements of a workload.
pub(super) struct RolloutDriver<'a, V, W: Workload> {
    pub(super) view: &'a V,
    pub(super) now: Timestamp,
    owner: RolloutOwner<'a>,
    /// The RolloutPolicies that apply to the workload.
    pub(super) policies: Vec<Arc<RolloutPolicy>>,
    /// The policy for the records.
    pub(super) policy: Option<Arc<RolloutPolicy>>,
    /// The records of the last decision, from any policy.
    pub(super) records: Vec<RolloutStatus>,
    rules: Result<Policy, Refused>,
    granted: BTreeSet<String>,
    /// The clusters that changed since the last decision.
    pub(super) changed: BTreeSet<String>,
    /// The rollouts of the last decision.
    pub(super) before: CachedRollouts<W>,
    /// The rollouts of this decision.
    pub(super) cached: CachedRollouts<W>,
}

impl<'a, V: View, W: Workload> RolloutDriver<'a, V, W> {
    pub(super) fn read(
        owner: RolloutOwner<'a>,
        changed: BTreeSet<String>,
        before: CachedRollouts<W>,
        view: &'a V,
        now: Timestamp,
    ) -> Read<Self> {
        let policies = rollout_policy::policies_for(owner, view)?;
        let (rules, granted) = rollout_policy::rules_of(&policies, owner);
        let policy = rollout_policy::choose(&policies, owner).cloned();
        let records = rollout_policy::rollouts_of(owner, policy.as_deref(), view)?;
        let cached = BTreeMap::new();
        Ok(Self { view, now, owner, policies, policy, records, rules, granted, changed, before, cached })
    }

    /// Returns the record of the last decision about a placement.
    pub(super) fn record(&self, placement: &Key) -> Option<&RolloutStatus> {
        rollout_policy::remembered(&self.records, placement)
    }

    /// Returns the input of the engine for a placement, without clusters.
    pub(super) fn rules(&self, node: &PlacementNode, revision: Hash) -> Input {
        let mut rules = Input::new(revision, Strategy::read(&node.strategy, node.group_size));
        rules.owner = self.owner.to_string();
        (rules.policy, rules.granted) = (self.rules.clone(), self.granted.clone());
        if let Some(record) = self.record(&node.placement) {
            rollout_policy::recall(&mut rules, record, node.group_size);
        }
        rules
    }

    /// Decides nothing about a placement, and keeps its record and the changes of its clusters.
    pub(super) fn wait(&mut self, node: &PlacementNode, revision: Hash, reason: &str) -> PlacementRollout {
        let placement = node.placement.clone();
        if let Some(mut last) = self.before.remove(&placement) {
            last.members.postpone(&self.changed);
            self.cached.insert(placement.clone(), last);
        }
        let record = self.record(&placement).cloned();
        PlacementRollout { record, ..PlacementRollout::undecided(placement, revision, reason.to_owned()) }
    }

    /// Decides about a placement.
    pub(super) fn advance(
        &mut self,
        workload: &mut W,
        node: &PlacementNode,
        rules: Input,
        basis: W::Basis,
    ) -> Read<PlacementRollout> {
        let (placement, revision, now) = (node.placement.clone(), rules.revision.clone(), self.now);
        // If the clock went back, past times may be in the future.
        let is_usable = |last: &CachedRollout<_, _>| last.basis == basis && last.decided <= now;
        let (members, facts) = match self.before.remove(&placement).filter(is_usable) {
            Some(last) => (last.members, last.facts),
            None => (MemberRollout::new(&rules), W::Facts::default()),
        };
        let mut cached = CachedRollout { basis, members, facts, decided: now };
        let CachedRollout { basis, members, facts, decided: _ } = &mut cached;
        let (clusters, left) = (&node.clusters, node.left.clone());
        let next = NextRollout { clusters, left, rules, changed: &self.changed };
        members.update(next, |name| workload.cluster(name, (&*basis, &mut *facts), self.view, now))?;
        let decision = members.rollout.advance(now);
        let input = Arc::clone(members.rollout.input());
        self.cached.insert(placement.clone(), cached);
        let last = self.record(&placement);
        let failure = rollout_policy::failure(&decision, last, |cluster| workload.message(cluster));
        let mut record = rollout_policy::rollout_status(self.owner, &placement, &input, &decision);
        record.strategy = last.and_then(|last| last.strategy.clone());
        rollout_policy::record_removals(&mut record, &input, &decision, now);
        if decision.quarantine.is_some() {
            record.failure.clone_from(&failure);
        }
        let (input, decision, record) = (Some(input), Ok(decision), Some(record));
        Ok(PlacementRollout { placement, revision, input, decision, failure, record })
    }
}

/// Returns true if the clusters of all placements are known. Only then is it known which placement decides about a
/// cluster, and when the cluster's turn is.
pub(super) fn are_decided<'a>(placements: impl IntoIterator<Item = &'a PlacementNode>) -> bool {
    placements.into_iter().all(|node| !node.exists || node.clusters.selection.is_decided())
}

/// Returns when the selections and decisions change without an event.
pub(super) fn wakes<'a>(
    placements: impl IntoIterator<Item = &'a PlacementNode>,
    rollouts: &[PlacementRollout],
) -> impl Iterator<Item = Timestamp> {
    let settled = placements.into_iter().filter_map(|node| node.clusters.selection.settles);
    settled.chain(rollouts.iter().filter_map(PlacementRollout::recheck))
}
