//! Writes the decisions in an order that is safe to stop at any point.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, json};

use super::decide::DecidedRollouts;
use super::fleet::SetFleet;
use super::input::SetInput;
use crate::addon_removal::mark_decided;
use crate::placement_rollout::PlacementRollout;
use crate::rollout_driver::wakes;
use crate::rollout_events::{self, RolloutChange, event};
use crate::rollout_policy::{self, RolloutOwner};
use crate::sealing::WorkKeys;
use api::condition::ConditionStatus::{False, True};
use api::condition::{Conditions as _, Observation, set_condition};
use api::names::gitops_conditions::STALLED;
use api::names::replica_set_conditions::{MANIFESTWORK_APPLIED, PLACEMENT_ROLLED_OUT};
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use engine::plural::counted;
use engine::replica_set::{self, DesiredWork, PlacementProgress, WorkRecord};
use engine::rollout::cluster::{Cluster, Hash};
use object::duration::whole_second;
use object::{Key, Object, ObjectRef, merge_diff};
use reconcile::{Action, Event, EventType, Plan, Precondition, Read, StatusWrite, Subresource, View};
use seal::Owner;

/// Maximum number of works that one plan writes. All writes of a plan are in memory at once: with a template of 20
/// kB, these are 40 MB of JSON. After a failed write, the next plan waits, up to 7.5 s in total for the five plans
/// of 10,000 clusters. A cluster that rejects its work must therefore not delay many plans.
const MOST_WORKS: usize = 2_000;

/// The condition reason of a set whose name is invalid in the label of its works.
const INVALID_NAME: &str = "InvalidManifestWorkName";

/// The writes of works that are due now.
#[derive(Default)]
struct WorkWrites {
    actions: Vec<Action>,
    /// The clusters that the next plan checks again.
    open: BTreeSet<String>,
    /// The clusters that get no work, with the reason that its Secrets cannot be encrypted.
    unsealed: BTreeMap<String, &'static str>,
}

/// A template that is assigned to a cluster of a placement.
struct Assigned<'a> {
    placement: &'a Key,
    cluster: &'a Cluster,
    hash: &'a Hash,
}

impl SetInput {
    /// Returns the writes that are due now: snapshots first, then the records of the policy, then the works.
    pub(super) fn plan(mut self, view: &impl View, now: Timestamp) -> Read<Plan> {
        let plan = self.due(view, now)?;
        self.keep(view)?;
        Ok(plan)
    }

    fn due(&mut self, view: &impl View, now: Timestamp) -> Read<Plan> {
        let decided = self.decide(view, now)?;
        let mut plan = Plan::nothing();
        if let Some(named) = rollout_policy::name_on(self.set.as_ref(), &decided.policies) {
            plan.step([named]);
            return Ok(plan);
        }
        for at in wakes(&self.placements, &decided.rollouts) {
            plan.wake(at);
        }
        let mut due = WorkWrites::default();
        for rollout in &decided.rollouts {
            self.works_of(rollout, &mut due, view, now)?;
        }
        let WorkWrites { actions: mut writes, open, unsealed } = due;
        (self.fleet.open, self.fleet.unsealed) = (open, unsealed);
        if writes.len() >= MOST_WORKS {
            plan.wake(now);
        }
        let needed = self.needed();
        // Every template in a work needs a snapshot, even at rest, because the next rollout may return to it.
        let is_held = !writes.is_empty() || !self.fleet.works.is_empty();
        let missing = needed.iter().filter(|hash| is_held && !self.snapshots.contains_key(*hash));
        let missing = missing.filter_map(|hash| Some((hash, self.contents.get(hash)?)));
        let create = |(hash, spec)| {
            Action::create(Object::from_typed(&replica_set::snapshot(&self.set, hash, spec, &self.owner)))
        };
        plan.step(missing.map(create).collect::<Vec<_>>());
        let subject = RolloutOwner::ReplicaSet(&self.key);
        let policy = decided.policy.as_ref();
        plan.step(policy.and_then(|policy| rollout_policy::remember(policy, subject, decided.records())));
        let is_counted = decided.decisions().any(|decision| !decision.counted.is_empty());
        let needs_policy = policy.is_none() && (decided.has_records || is_counted);
        writes.extend(needs_policy.then(rollout_policy::create_default));
        writes.extend(rollout_policy::forget_elsewhere(subject, policy.map(Arc::as_ref), view)?);
        // A removal that counts against the budget is recorded before it is made. A new policy wakes the key.
        if policy.is_some() || !is_counted {
            writes.extend(self.deletions(&decided));
        }
        // A work that is unreadable, or missing from a list, may need any of them.
        let is_selected = self.placements.iter().any(|node| node.clusters.iter().next().is_some());
        let SetFleet { works, unreadable, .. } = &self.fleet;
        let all_known = unreadable.is_empty() && (!works.is_empty() || !is_selected);
        let old = self.snapshots.iter().filter(|(hash, _)| all_known && !needed.contains(*hash));
        writes.extend(old.map(|(_, snapshot)| Action::delete(snapshot.as_ref())));
        let approved: BTreeSet<_> = decided.decisions().flat_map(|decision| &decision.approved).collect();
        let approved = approved.into_iter().filter_map(|cluster| works.get(cluster));
        plan.step(approved.map(|(work, _)| mark_decided(work.as_ref())).collect::<Vec<_>>());
        plan.step(writes);
        let status = self.status(&decided, now);
        let new = ManifestWorkReplicaSet { status: Some(status), ..ManifestWorkReplicaSet::clone(&self.set) };
        let events = self.events(&decided, &new);
        rollout_events::draft(&mut plan, StatusWrite::between(self.set.as_ref(), &new), events);
        Ok(plan)
    }

    /// Adds the writes that assign templates to the clusters of a placement. A cluster that is not open and runs
    /// its assigned template needs no write, unless its agent has published another key.
    fn works_of(
        &self,
        rollout: &PlacementRollout,
        due: &mut WorkWrites,
        view: &impl View,
        now: Timestamp,
    ) -> Read<()> {
        let PlacementRollout { placement, decision: Ok(decision), .. } = rollout else { return Ok(()) };
        let Some(current) = self.fleet.rollouts.get(placement) else { return Ok(()) };
        let rollout = &current.members.rollout;
        let mut names: BTreeSet<&str> =
            rollout.moves().chain(self.fleet.open.iter().map(String::as_str)).collect();
        if self.contents.values().any(|spec| seal::has_sealed(&spec.workload.manifests)) {
            names.extend(decision.clusters.keys().map(String::as_str));
        }
        for name in names {
            let Some(assignment) = decision.clusters.get(name) else { continue };
            if due.actions.len() >= MOST_WORKS {
                due.open.insert(name.to_owned());
                continue;
            }
            let assigned = rollout.cluster(name).zip(assignment.assigned.as_ref());
            let assigned = assigned.map(|(cluster, hash)| Assigned { placement, cluster, hash });
            let write = match assigned {
                Some(assigned) => match self.keys_of(&assigned, view)? {
                    Ok(keys) => self.work_of(&assigned, &keys, now),
                    Err(reason) => {
                        due.unsealed.insert(name.to_owned(), reason);
                        None
                    }
                },
                None => None,
            };
            if write.is_some() || rollout.is_moved(name) {
                due.open.insert(name.to_owned());
            }
            due.actions.extend(write);
        }
        Ok(())
    }

    /// Returns the keys for an assigned template, or the reason that its Secrets cannot be encrypted.
    fn keys_of(&self, assigned: &Assigned<'_>, view: &impl View) -> Read<Result<WorkKeys, &'static str>> {
        match self.contents.get(assigned.hash) {
            Some(spec) => WorkKeys::read(&spec.workload.manifests, &assigned.cluster.name, view),
            None => Ok(Ok(WorkKeys::None)),
        }
    }

    /// Returns the write that assigns a template to a cluster of a placement; `None` if none is needed or
    /// possible.
    fn work_of(&self, assigned: &Assigned<'_>, keys: &WorkKeys, now: Timestamp) -> Option<Action> {
        let Assigned { placement, cluster, hash } = *assigned;
        let name = &cluster.name;
        let spec = self.contents.get(hash).filter(|_| !self.fleet.unreadable.contains(name))?;
        let live = self.fleet.works.get(name).map(|(work, _)| work.as_ref());
        let record = &record(hash, cluster, live, now);
        let needs = self.fleet.rollouts.get(placement)?.basis.needs;
        let (set, owner, placement) = (&self.set, &self.owner, &placement.name);
        write(name, live, &DesiredWork { set, owner, placement, spec, record, needs }, keys)
    }

    /// Returns the templates that clusters run or may return to.
    fn needed(&self) -> BTreeSet<Hash> {
        let mut needed: BTreeSet<Hash> = self.fleet.templates.keys().cloned().collect();
        needed.insert(self.revision.clone());
        for rollout in self.fleet.rollouts.values() {
            let returns_to = |good: &&Hash| {
                let mut clusters = rollout.members.rollout.input().clusters.iter();
                clusters.any(|cluster| cluster.last_good.as_ref() == Some(good))
            };
            needed.extend(rollout.basis.good.as_ref().filter(returns_to).cloned());
        }
        needed
    }

    fn deletions(&self, decided: &DecidedRollouts) -> Vec<Action> {
        let removed: BTreeSet<_> = decided.decisions().flat_map(|decision| &decision.removed).collect();
        let removed = removed.into_iter().filter_map(|cluster| self.fleet.works.get(cluster));
        removed
            .map(|(work, _)| work)
            .chain(self.fleet.surplus.values().flatten())
            .map(|work| Action::delete(work.as_ref()))
            .collect()
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
            .zip(&self.fleet.counts)
            .enumerate()
            .map(|(position, ((node, rollout), works))| PlacementProgress {
                name: &node.placement.name,
                exists: node.exists,
                settled: node.clusters.selection.settled,
                groups: node.clusters.selection.groups.len(),
                selected: node.clusters.count(),
                works: *works,
                decision: rollout.decision.as_deref().ok(),
                errors: self.fleet.errors_of(position, rollout.decision.as_deref().ok()),
            })
            .collect();
        replica_set::status(&self.set, &placements, now)
    }

    /// Returns the events of the rollouts. `new` is the set after the plan.
    fn events(&self, decided: &DecidedRollouts, new: &ManifestWorkReplicaSet) -> Vec<Event> {
        let mut events = Vec::new();
        for rollout in &decided.rollouts {
            let (Some(input), Ok(decision)) = (&rollout.input, &rollout.decision) else { continue };
            let before = reported(&self.set, &rollout.placement.name);
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
                message: reported(new, &rollout.placement.name),
                waited: &waited.cloned().collect::<Vec<_>>(),
                starts: counts.starting > 0 && begun == 0,
                completes: false,
            };
            events.extend(change.events(&*self.set));
        }
        // The condition covers all placements.
        let works = new.status.as_ref().map(|status| status.summary.total).unwrap_or_default();
        let was_complete =
            self.set.condition(PLACEMENT_ROLLED_OUT).is_none_or(|condition| condition.is_true());
        if works > 0 && !was_complete && new.holds(PLACEMENT_ROLLED_OUT) {
            let message =
                format!("the template ({}) is in {}", self.revision.short(), counted(works, "work"));
            events.push(event(&*self.set, EventType::Normal, "RolloutCompleted", message));
        }
        events
    }
}

/// Returns the part of a set's condition that is about the rollout on a placement.
fn reported<'a>(set: &'a ManifestWorkReplicaSet, placement: &str) -> &'a str {
    let message = set.condition(PLACEMENT_ROLLED_OUT).map(|condition| condition.message.as_str());
    let parts = message.and_then(|message| message.split_once(&format!("placement {placement}: ")));
    parts.map(|(_, rest)| rest.split("; placement ").next().unwrap_or(rest)).unwrap_or_default()
}

/// Returns the annotations for the work of a cluster with an assigned template.
fn record(hash: &Hash, cluster: &Cluster, live: Option<&ManifestWork>, now: Timestamp) -> WorkRecord {
    match live.filter(|_| cluster.runs.as_ref() == Some(hash)) {
        Some(work) => replica_set::unchanged(work, cluster),
        None => replica_set::assigned(hash, cluster, whole_second(now)),
    }
}

/// Returns the write that brings the work of a cluster to its desired state; `None` if it is up to date.
fn write(
    cluster: &str,
    live: Option<&ManifestWork>,
    wanted: &DesiredWork<'_>,
    keys: &WorkKeys,
) -> Option<Action> {
    if live.is_some_and(|live| wanted.is_met_by(live) && keys.are_in(live)) {
        return None;
    }
    let mut desired = wanted.work(cluster, live);
    keys.add(&Owner::Set(Key::of(wanted.set)), &mut desired);
    let Some(work) = live else { return Some(Action::create(Object::from_typed(&desired))) };
    let content = |work: &ManifestWork| {
        let (labels, annotations) = (&work.metadata.labels, &work.metadata.annotations);
        json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": work.spec})
    };
    let patch = merge_diff(&content(work), &content(&desired))?;
    Some(Action::Patch {
        site: Default::default(),
        target: ObjectRef::of::<ManifestWork>(Key::of(work)),
        subresource: Subresource::None,
        patch: patch.as_object().cloned().unwrap_or_else(Map::new),
        // A plan of a former leader must not overwrite a newer work. If the agent reports in between, the write
        // conflicts.
        precondition: Precondition::unchanged(work),
        impersonate: None,
    })
}

/// Returns the status of a set whose name is invalid in the label of its works.
pub(super) fn unnamable(set: &ManifestWorkReplicaSet, fault: &str, now: Timestamp) -> Option<StatusWrite> {
    let mut new = set.clone();
    let generation = set.metadata.generation.unwrap_or_default();
    let conditions = &mut new.status.get_or_insert_default().conditions;
    for (type_, status) in [(MANIFESTWORK_APPLIED, False), (STALLED, True)] {
        let condition = Observation::new(type_, status, INVALID_NAME).message(fault).at(generation);
        set_condition(conditions, condition, now);
    }
    StatusWrite::between(set, &new)
}

#[cfg(test)]
#[path = "../tests/large_set.rs"]
mod tests;
