//! Writes the decisions, in an order that is safe to stop at any point.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Map, json};

use super::decide::DecidedRollouts;
use super::input::{Node, SetInput};
use crate::hub::rollout_events::{self, RolloutChange, event};
use crate::rollout_policy::{self, RolloutOwner};
use api::condition::Conditions as _;
use api::names::replica_set_conditions::PLACEMENT_ROLLED_OUT;
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use engine::plural::counted;
use engine::replica_set::{self, DesiredWork, PlacementProgress, WorkRecord};
use engine::rollout::RolloutDecision;
use engine::rollout::input::{Cluster, Hash};
use object::{Key, Object, ObjectRef, merge_diff};
use reconcile::{Action, Event, EventType, Plan, Precondition, Read, StatusWrite, Subresource, View};

impl SetInput {
    /// Returns the writes that are due now: snapshots first, then the records of the policy, then the works.
    pub(super) fn plan(self, view: &impl View, now: Timestamp) -> Read<Plan> {
        let mut decided = self.decide(view, now)?;
        let mut plan = Plan::nothing();
        let policy = rollout_policy::of_people(decided.policy.as_deref());
        if let Some(named) = rollout_policy::name_on(self.set.as_ref(), policy) {
            plan.step([named]);
            return Ok(plan);
        }
        let memories = std::mem::take(&mut decided.memories);
        let mut writes = Vec::new();
        for (node, rollout) in self.placements.iter().zip(&decided.rollouts) {
            let Ok(decision) = &rollout.decision else { continue };
            if let Some(at) = decision.recheck {
                plan.wake(at);
            }
            writes.extend(self.works_of(node, decision, &decided, now));
        }
        let kept = self.kept(&decided);
        let missing = kept.iter().filter(|hash| !self.snapshots.contains_key(*hash) && !writes.is_empty());
        let missing = missing.filter_map(|hash| Some((hash, self.contents.get(hash)?)));
        let create = |(hash, spec)| {
            Action::create(Object::from_typed(&replica_set::snapshot(&self.set, hash, spec, &self.owner)))
        };
        plan.step(missing.map(create).collect::<Vec<_>>());
        let subject = RolloutOwner::ReplicaSet(&self.key);
        let policy = decided.policy.as_ref();
        plan.step(policy.and_then(|policy| rollout_policy::remember(policy, subject, memories)));
        writes.extend(self.deletions(&decided));
        // A work that cannot be read, or that a list leaves out, may need any of them.
        let is_selected = self.placements.iter().any(|node| node.clusters().next().is_some());
        let all_known = self.unreadable.is_empty() && (!self.works.is_empty() || !is_selected);
        let old = self.snapshots.iter().filter(|(hash, _)| all_known && !kept.contains(*hash));
        writes.extend(old.map(|(_, snapshot)| Action::delete(snapshot.as_ref())));
        plan.step(writes);
        let status = self.status(&decided, now);
        let new = ManifestWorkReplicaSet { status: Some(status), ..ManifestWorkReplicaSet::clone(&self.set) };
        let events = self.events(&decided, &new);
        rollout_events::draft(&mut plan, StatusWrite::between(self.set.as_ref(), &new), events);
        Ok(plan)
    }

    /// Returns the writes of the assignments to the clusters of a placement.
    fn works_of(
        &self,
        node: &Node,
        decision: &RolloutDecision,
        decided: &DecidedRollouts,
        now: Timestamp,
    ) -> Vec<Action> {
        let mut writes = Vec::new();
        for (name, assignment) in &decision.clusters {
            let Some(cluster) = decided.clusters.get(name).filter(|_| !self.unreadable.contains(name)) else {
                continue;
            };
            let Some(hash) = &assignment.assigned else { continue };
            let Some(spec) = self.contents.get(hash) else { continue };
            let live = self.works.get(name).map(|(work, _)| work.as_ref());
            let record = record(hash, cluster, live, now);
            let placement = &node.placement.name;
            let wanted = DesiredWork { set: &self.set, owner: &self.owner, placement, spec, record: &record };
            writes.extend(write(name, live, &wanted));
        }
        writes
    }

    /// Returns the templates that clusters run or may return to.
    fn kept(&self, decided: &DecidedRollouts) -> BTreeSet<Hash> {
        let mut kept = BTreeSet::from([self.revision.clone()]);
        kept.extend(self.works.values().map(|(_, runs)| runs.clone()));
        kept.extend(decided.clusters.values().filter_map(|cluster| cluster.last_good.clone()));
        kept.extend(self.works.values().filter_map(|(work, _)| WorkRecord::read(work).last_good));
        kept
    }

    fn deletions(&self, decided: &DecidedRollouts) -> Vec<Action> {
        let removed = self.works.iter().filter(|(cluster, _)| decided.removed.contains(*cluster));
        let removed = removed.map(|(_, (work, _))| work);
        removed.chain(&self.surplus).map(|work| Action::delete(work.as_ref())).collect()
    }

    fn status(
        &self,
        decided: &DecidedRollouts,
        now: Timestamp,
    ) -> api::work::v1alpha1::ManifestWorkReplicaSetStatus {
        let placements: Vec<PlacementProgress<'_>> = self
            .placements
            .iter()
            .zip(&decided.rollouts)
            .map(|(node, rollout)| PlacementProgress {
                name: &node.placement.name,
                exists: node.exists,
                settled: node.selection.settled,
                groups: node.selection.groups.len(),
                selected: node.clusters().count(),
                works: self.works_from(node),
                decision: rollout.decision.as_deref().ok(),
            })
            .collect();
        replica_set::status(&self.set, &placements, now)
    }

    /// Returns the events of the rollouts, after which the set is `new`.
    fn events(&self, decided: &DecidedRollouts, new: &ManifestWorkReplicaSet) -> Vec<Event> {
        let mut events = Vec::new();
        for rollout in &decided.rollouts {
            let (Some(input), Ok(decision)) = (&rollout.input, &rollout.decision) else { continue };
            let before = told(&self.set, &rollout.placement.name);
            let counts = &decision.counts;
            let begun = counts.done + counts.soaking + counts.progressing + counts.failed + counts.timed_out;
            let waited = decision.approvals.iter().filter(|token| before.contains(token.as_str()));
            let change = RolloutChange {
                placement: &rollout.placement,
                input,
                decision,
                revision: "the template",
                failure: &rollout.failure,
                before,
                message: told(new, &rollout.placement.name),
                waited: &waited.cloned().collect::<Vec<_>>(),
                starts: counts.starting > 0 && begun == 0,
                completes: false,
            };
            events.extend(change.events(&*self.set));
        }
        // The condition is about all placements.
        let works = new.status.as_ref().map(|status| status.summary.total).unwrap_or_default();
        let was_complete =
            self.set.condition(PLACEMENT_ROLLED_OUT).is_none_or(|condition| condition.is_true());
        if works > 0 && !was_complete && new.holds(PLACEMENT_ROLLED_OUT) {
            let message = format!("the newest template is in {}", counted(works, "work"));
            events.push(event(&*self.set, EventType::Normal, "RolloutCompleted", message));
        }
        events
    }

    /// Returns the works of the clusters of a placement, and whether each has the newest template.
    fn works_from(&self, node: &Node) -> Vec<(&ManifestWork, bool)> {
        let works = node.clusters().filter_map(|cluster| self.works.get(cluster));
        works.map(|(work, runs)| (work.as_ref(), *runs == self.revision)).collect()
    }
}

/// Returns what the condition of a set says about the rollout on a placement.
fn told<'a>(set: &'a ManifestWorkReplicaSet, placement: &str) -> &'a str {
    let message = set.condition(PLACEMENT_ROLLED_OUT).map(|condition| condition.message.as_str());
    let parts = message.and_then(|message| message.split_once(&format!("placement {placement}: ")));
    parts.map(|(_, rest)| rest.split("; placement ").next().unwrap_or(rest)).unwrap_or_default()
}

/// Returns the annotations of the work of a cluster that is assigned a template.
fn record(hash: &Hash, cluster: &Cluster, live: Option<&ManifestWork>, now: Timestamp) -> WorkRecord {
    let seconds = Timestamp::from_second(now.as_second()).unwrap_or(now);
    match live.filter(|_| cluster.runs.as_ref() == Some(hash)) {
        Some(work) => replica_set::kept(work, cluster),
        None => replica_set::assigned(hash, cluster, seconds),
    }
}

/// Returns the write that makes the work of a cluster as wanted; `None` if it is so already.
fn write(cluster: &str, live: Option<&ManifestWork>, wanted: &DesiredWork<'_>) -> Option<Action> {
    let Some(work) = live else {
        return Some(Action::create(Object::from_typed(&wanted.work(cluster, None))));
    };
    if wanted.is_met_by(work) {
        return None;
    }
    let content = |work: &ManifestWork| {
        let (labels, annotations) = (&work.metadata.labels, &work.metadata.annotations);
        json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": work.spec})
    };
    let patch = merge_diff(&content(work), &content(&wanted.work(cluster, live)))?;
    Some(Action::Patch {
        site: Default::default(),
        target: ObjectRef::of::<ManifestWork>(Key::of(work)),
        subresource: Subresource::None,
        patch: patch.as_object().cloned().unwrap_or_else(Map::new),
        // A plan of a former leader must not overwrite a newer work. If the agent reports in between, the
        // write is a conflict.
        precondition: Precondition::unchanged(work),
        impersonate: None,
    })
}
