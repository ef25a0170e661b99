//! Decides which cluster has which template: calls the rollout engine for each placement.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::input::{Node, SetInput};
use crate::hub::addon_config::PlacementRollout;
use crate::placement_reads::{answers_since, is_unreachable};
use crate::rollout_policy::{self, RolloutOwner};
use api::cluster::v1::ManagedCluster;
use api::gitops::v1alpha1::{RolloutPolicy, RolloutStatus, Success};
use api::names::WORK_PLACEMENT_LABEL;
use api::work::v1::ManifestWork;
use engine::replica_set::{self, SuccessRule};
use engine::rollout::input::{Cluster, Hash};
use engine::rollout::{self, Input, Policy, Refused, Strategy};
use object::{Key, Metadata as _};
use reconcile::{Read, View};

/// The rollouts of a set, decided but not written.
pub(super) struct DecidedRollouts {
    /// The rollout of each placement.
    pub(super) rollouts: Vec<PlacementRollout>,
    /// The RolloutPolicy of the set.
    pub(super) policy: Option<Arc<RolloutPolicy>>,
    /// The record of each placement in the status of the policy.
    pub(super) memories: Vec<RolloutStatus>,
    /// The clusters that have a work or get one.
    pub(super) clusters: BTreeMap<String, Cluster>,
    /// Clusters that lose their work.
    pub(super) removed: BTreeSet<String>,
}

/// The input that all placements of a set share.
struct SetContext<'a, V> {
    view: &'a V,
    now: Timestamp,
    policy: Result<Policy, Refused>,
    granted: BTreeSet<String>,
    object: Option<Arc<RolloutPolicy>>,
}

impl SetInput {
    /// Calls the rollout engine for every placement that exists.
    pub(super) fn decide<V: View>(&self, view: &V, now: Timestamp) -> Read<DecidedRollouts> {
        let subject = RolloutOwner::ReplicaSet(&self.key);
        let (policy, granted) = rollout_policy::policy_for(subject, view)?;
        let object = rollout_policy::object_for(subject, view)?;
        let pass = SetContext { view, now, policy, granted, object };
        let mut decided = DecidedRollouts {
            rollouts: Vec::new(),
            policy: None,
            memories: Vec::new(),
            clusters: BTreeMap::new(),
            removed: BTreeSet::new(),
        };
        for node in &self.placements {
            self.decide_placement(node, &pass, &mut decided)?;
        }
        decided.policy = pass.object;
        Ok(decided)
    }

    fn decide_placement<V: View>(
        &self,
        node: &Node,
        pass: &SetContext<'_, V>,
        decided: &mut DecidedRollouts,
    ) -> Read<()> {
        let (placement, revision) = (node.placement.clone(), self.revision.clone());
        if !node.exists {
            let decision = Err("there is no such placement; its works stay as they are".to_owned());
            let failure = String::new();
            decided.rollouts.push(PlacementRollout { placement, revision, input: None, decision, failure });
            return Ok(());
        }
        let strategy = Strategy::read(&node.reference.rollout_strategy, node.group_size);
        let mut input = Input::new(revision.clone(), strategy);
        input.policy = pass.policy.clone();
        input.granted = pass.granted.clone();
        let subject = RolloutOwner::ReplicaSet(&self.key);
        let object = pass.object.as_ref();
        let remembered = object.and_then(|policy| rollout_policy::remembered(policy, subject, &placement));
        let hash = |text: &String| Some(Hash(text.clone())).filter(|hash| !hash.0.is_empty());
        input.quarantined = remembered.and_then(|memory| hash(&memory.quarantined));
        let good =
            remembered.and_then(|memory| hash(&memory.last_good)).filter(|h| self.contents.contains_key(h));
        self.read_clusters(&mut input, node, good.as_ref(), pass)?;
        let decision = rollout::advance(&input, pass.now);
        decided.clusters.extend(input.clusters.iter().map(|cluster| (cluster.name.clone(), cluster.clone())));
        decided.removed.extend(decision.removed.iter().cloned());
        let mut memory = rollout_policy::rollout_status(subject, &placement, &input, &decision);
        let last_good = if decision.counts.is_complete() { Some(&revision) } else { good.as_ref() };
        memory.last_good = last_good.map(|hash| hash.0.clone()).unwrap_or_default();
        let failure = rollout_policy::failure(&decision, remembered, |cluster| self.message(cluster));
        if !memory.quarantined.is_empty() {
            memory.failure.clone_from(&failure);
        }
        decided.memories.push(memory);
        let (input, decision) = (Some(Arc::new(input)), Ok(Arc::new(decision)));
        decided.rollouts.push(PlacementRollout { placement, revision, input, decision, failure });
        Ok(())
    }

    /// Adds the clusters of a placement to the input, and the clusters that left it.
    fn read_clusters<V: View>(
        &self,
        input: &mut Input,
        node: &Node,
        good: Option<&Hash>,
        pass: &SetContext<'_, V>,
    ) -> Read<()> {
        let rule = SuccessRule {
            wants: &self.revision,
            good_everywhere: good,
            applied_suffices: pass.object.as_ref().is_some_and(|p| p.spec.success == Success::Applied),
            soak: soak(input),
            now: pass.now,
        };
        let mut absent = node.taken.clone();
        for name in node.clusters() {
            match self.candidate(name, &rule, pass.view)? {
                Some(cluster) => input.clusters.push(cluster),
                None => {
                    absent.insert(name.to_owned());
                }
            }
        }
        input.groups = node.selection.without(&absent);
        if self.settled {
            let of_node =
                |work: &ManifestWork| work.label(WORK_PLACEMENT_LABEL) == Some(node.placement.name.as_str());
            // The works of a placement that the set no longer names count under its first one, so that no
            // removal is outside of the budget. See docs/hazards.md#edited-placements.
            let is_first = self.placements.first().is_some_and(|first| first.placement == node.placement);
            let left =
                self.leaving().filter(|work| of_node(work) || (is_first && !self.has_placement_of(work)));
            let left = left.map(|work| Cluster {
                name: work.namespace().to_owned(),
                runs: Some(self.revision.clone()),
                ..Cluster::default()
            });
            input.clusters.extend(left);
        }
        Ok(())
    }

    /// Returns a cluster as the engine reads it; `None` for one that leaves or is gone, so that no rollout
    /// waits for it.
    fn candidate(&self, name: &str, rule: &SuccessRule<'_>, view: &impl View) -> Read<Option<Cluster>> {
        // A cluster that cannot be read exists, and counts as unreachable.
        let managed = match view.get::<ManagedCluster>(&Key::cluster(name)) {
            Ok(Some(managed)) if !managed.is_terminating() => Some(managed),
            Ok(_) => return Ok(None),
            Err(error) if error.is_unreadable() => None,
            Err(error) => return Err(error),
        };
        let unknown =
            || Cluster { name: name.to_owned(), wants: self.revision.clone(), ..Cluster::default() };
        let work = self.works.get(name);
        let mut cluster =
            work.map_or_else(unknown, |(work, runs)| replica_set::cluster(work, runs.clone(), rule));
        if cluster.last_good.as_ref().is_none_or(|good| !self.contents.contains_key(good)) {
            cluster.last_good = rule.good_everywhere.cloned();
        }
        cluster.unreachable = self.unreadable.contains(name) || managed.as_deref().is_none_or(is_unreachable);
        cluster.answers_since = managed.as_deref().and_then(answers_since);
        let created = managed.as_ref().and_then(|managed| managed.metadata.creation_timestamp.as_ref());
        cluster.joined = created.map(|created| created.0);
        Ok(Some(cluster))
    }
}

/// Returns how long a success must last, as the engine counts it.
fn soak(input: &Input) -> SignedDuration {
    let by_strategy = input.strategy.as_ref().ok().and_then(|strategy| strategy.limits().soak);
    let by_policy = input.policy.as_ref().map(|policy| policy.soak).unwrap_or_default();
    by_strategy.map(|soak| soak.max(by_policy)).unwrap_or_default()
}
