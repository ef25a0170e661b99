//! Rolls the template of a ManifestWorkReplicaSet out to the clusters of its placements, as add-ons are
//! rolled out.
//!
//! The order of writes makes this safe: a snapshot of the template exists before a cluster is assigned its
//! hash, and a quarantine is recorded before a cluster returns from the revision. A cluster of several
//! placements has one work, from the first of them.

mod decide;
mod input;
mod report;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use serde_json::Value;

use self::input::SetInput;
use super::addon_config::PlacementRollout;
use super::rollout_events;
use crate::placement_reads::{is_unreachable, placement_of};
use crate::rollout_policy::{self, RolloutOwner};
use api::Condition;
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::condition::ConditionStatus::False;
use api::condition::{ConditionStatus, Conditions as _, Observation, set_condition};
use api::gitops::v1alpha1::RolloutPolicy;
use api::names::replica_set_conditions::MANIFESTWORK_APPLIED;
use api::names::{WORK_REPLICA_SET_FINALIZER, WORK_REPLICA_SET_LABEL};
use api::work::v1::ManifestWork;
use api::work::v1alpha1::{CascadeDeletionPolicy, ManifestWorkReplicaSet};
use engine::replica_set;
use engine::rollout::input::Hash;
use object::text;
use object::{Key, Metadata as _, Object};
use reconcile::{Action, Controller, Executed, Plan, Query, Read, StatusWrite, View, Watches};

pub(in crate::hub) use self::report::{ReportedSet, last_change, report};

/// Limit of the characters of an error of the API server in the status.
const LONGEST_MESSAGE: usize = 600;

/// Keeps one work on each cluster that the placements of a set select.
pub struct ReplicaSetController;

impl Controller for ReplicaSetController {
    const NAME: &'static str = "replica-set";
    type Primary = ManifestWorkReplicaSet;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManifestWork>(|change, _| {
            if change.differs_in(relevant_fields) {
                change.sides().filter_map(set_of).collect::<BTreeSet<_>>().into_iter().collect()
            } else {
                Vec::new()
            }
        });
        watches.on::<Placement>(|change, view| {
            change.latest().map(|placement| sets_of(&Key::of(placement), view)).unwrap_or_default()
        });
        watches.on::<PlacementDecision>(|change, view| {
            let placements: BTreeSet<Key> = change.sides().filter_map(placement_of).collect();
            placements.iter().flat_map(|placement| sets_of(placement, view)).collect()
        });
        watches.on::<ManagedCluster>(|change, view| {
            let fields = |cluster: &ManagedCluster| (is_unreachable(cluster), cluster.is_terminating());
            if change.differs_in(fields) { all(view) } else { Vec::new() }
        });
        watches.on::<RolloutPolicy>(|change, view| {
            if change.differs_in(|policy| &policy.spec) { all(view) } else { Vec::new() }
        });
        watches.read::<ControllerRevision>();
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let Some(set) = view.get::<ManifestWorkReplicaSet>(key)? else { return Ok(Plan::nothing()) };
        if set.is_terminating() {
            return delete(&set, view);
        }
        let mut plan = Plan::nothing();
        plan.step(Action::add_finalizers(set.as_ref(), &[WORK_REPLICA_SET_FINALIZER]));
        match replica_set::owner_label(key) {
            Ok(owner) if plan.is_empty() => SetInput::read(set, owner, view)?.plan(view, now),
            Ok(_) => Ok(plan),
            Err(fault) => {
                plan.status = unnamable(&set, &fault, now);
                Ok(plan)
            }
        }
    }

    /// Returns the status. It is about the set as a whole, so a failed write of one work does not delay it;
    /// it names the first failure.
    fn conclude(key: &Key, view: &impl View, done: &Executed, now: Timestamp) -> Option<StatusWrite> {
        let Some((_, failure)) = done.failures().next() else { return done.plan.status.clone() };
        let set = view.get::<ManifestWorkReplicaSet>(key).ok()??;
        let mut new = Object::from_typed(set.as_ref()).into_value();
        let drafted = done.plan.status.iter().map(|write| Value::Object(write.patch.clone()));
        drafted.for_each(|patch| json_patch::merge(&mut new, &patch));
        let mut new: ManifestWorkReplicaSet = serde_json::from_value(new).ok()?;
        let generation = set.metadata.generation.unwrap_or_default();
        let observed = Observation::new(MANIFESTWORK_APPLIED, False, "NotAsExpected").at(generation);
        let observed = observed.message(text::plain(&failure.message, LONGEST_MESSAGE));
        set_condition(&mut new.status.get_or_insert_default().conditions, observed, now);
        // A rollout has started once one of its works is written; until then each plan drafts that event. The
        // other events tell what the status says from now on.
        let has_written = done.outcomes.last().is_some_and(|step| step.iter().any(Result::is_ok));
        let mut events = done.plan.status.as_ref().map(|write| write.events.clone()).unwrap_or_default();
        events.retain(|event| has_written || !rollout_events::is_of_works(event));
        StatusWrite::between(set.as_ref(), &new).map(|write| StatusWrite { events, ..write })
    }
}

/// The rollouts of a set, as decided now.
pub struct SetRollouts {
    /// The rollout of each placement.
    pub rollouts: Vec<PlacementRollout>,
    /// The templates behind the hashes, and how many manifests each has.
    pub contents: BTreeMap<Hash, usize>,
    /// Why clusters are not done, as the conditions of their works say. The texts come from the clusters and
    /// must be escaped.
    pub messages: BTreeMap<String, String>,
}

/// Decides the rollouts of a set and writes nothing; `None` if the set does not exist.
///
/// # Errors
/// A kind or an object that the decision needs could not be read.
pub fn explain(key: &Key, view: &impl View, now: Timestamp) -> Read<Option<SetRollouts>> {
    let Some(set) = view.get::<ManifestWorkReplicaSet>(key)? else { return Ok(None) };
    let Ok(owner) = replica_set::owner_label(key) else { return Ok(None) };
    let input = SetInput::read(set, owner, view)?;
    let contents = input.contents.iter().map(|(hash, spec)| (hash.clone(), spec.workload.manifests.len()));
    let contents = contents.collect();
    let decided = input.decide(view, now)?;
    let decisions = decided.rollouts.iter().filter_map(|rollout| rollout.decision.as_ref().ok());
    let messages = decisions.flat_map(|decision| report::messages(&input, decision)).collect();
    Ok(Some(SetRollouts { rollouts: decided.rollouts, contents, messages }))
}

fn all(view: &impl View) -> Vec<Key> {
    view.keys::<ManifestWorkReplicaSet>(Query::ALL)
}

/// Returns the sets that roll out to the clusters of a placement.
fn sets_of(placement: &Key, view: &impl View) -> Vec<Key> {
    let sets = view.readable::<ManifestWorkReplicaSet>(Query::namespace(&placement.namespace));
    let uses = |set: &&Arc<ManifestWorkReplicaSet>| {
        set.spec.placement_refs.iter().any(|reference| reference.name == placement.name)
    };
    sets.iter().filter(uses).map(|set| Key::of(set.as_ref())).collect()
}

/// Returns the set of a work, from its label. A namespace has no dot, so the first dot ends it.
fn set_of(work: &ManifestWork) -> Option<Key> {
    let (namespace, name) = work.label(WORK_REPLICA_SET_LABEL)?.split_once('.')?;
    Some(Key::namespaced(namespace, name))
}

/// Returns the parts of a work that the decision reads, without the status of manifests and feedback.
fn relevant_fields(work: &ManifestWork) -> impl PartialEq + use<> {
    let relevant = |c: &Condition| (c.type_.clone(), c.status.clone(), c.observed_generation);
    let metadata = &work.metadata;
    (
        metadata.uid.clone(),
        metadata.generation,
        metadata.labels.clone(),
        metadata.annotations.clone(),
        metadata.deletion_timestamp.is_some(),
        work.conditions().iter().map(relevant).collect::<Vec<(String, ConditionStatus, Option<i64>)>>(),
    )
}

/// Deletes the works of a set that is deleted. With the policy Foreground the set waits until they are gone.
fn delete(set: &ManifestWorkReplicaSet, view: &impl View) -> Read<Plan> {
    let mut plan = Plan::nothing();
    let key = Key::of(set);
    if !set.has_finalizer(WORK_REPLICA_SET_FINALIZER) {
        return Ok(plan);
    }
    let mut works = match replica_set::owner_label(&key) {
        Ok(owner) => view.list::<ManifestWork>(Query::label(WORK_REPLICA_SET_LABEL, &owner))?,
        Err(_) => Vec::new(),
    };
    works.retain(|work| replica_set::is_owned(&key, work));
    plan.step(works.iter().filter(|work| !work.is_terminating()).map(|work| Action::delete(work.as_ref())));
    let policy = rollout_policy::object_for(RolloutOwner::ReplicaSet(&key), view)?;
    plan.step(policy.and_then(|p| rollout_policy::remember(&p, RolloutOwner::ReplicaSet(&key), Vec::new())));
    let waits = match &set.spec.cascade_deletion_policy {
        CascadeDeletionPolicy::Foreground => !works.is_empty(),
        CascadeDeletionPolicy::Background | CascadeDeletionPolicy::Other(_) => false,
    };
    if !waits {
        plan.step(Action::remove_finalizers(set, &[WORK_REPLICA_SET_FINALIZER]));
    }
    Ok(plan)
}

/// Returns the status of a set with a name that is not valid in the label of its works.
fn unnamable(set: &ManifestWorkReplicaSet, fault: &str, now: Timestamp) -> Option<StatusWrite> {
    let mut new = set.clone();
    let generation = set.metadata.generation.unwrap_or_default();
    let condition = Observation::new(MANIFESTWORK_APPLIED, False, "InvalidManifestWorkName");
    let condition = condition.message(fault).at(generation);
    set_condition(&mut new.status.get_or_insert_default().conditions, condition, now);
    StatusWrite::between(set, &new)
}
