//! Rolls out the template of a ManifestWorkReplicaSet to the clusters of its placements, in the same way as
//! add-ons.
//!
//! The order of writes makes this safe: a snapshot of the template exists before a cluster is assigned its hash,
//! and a quarantine is recorded before a cluster returns from the revision. A cluster in several placements has
//! one work, from the first of them.

mod decide;
mod deletion;
mod fleet;
mod input;
mod report;
mod wakes;
mod write;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use serde_json::Value;

use self::deletion::delete;
use self::fleet::SetFleets;
use self::input::SetInput;
use self::wakes::{all, quarantined_by, relevant_fields, set_of, sets_of};
use self::write::unnamable;
use crate::placement_reads::{is_unreachable, placement_of};
use crate::placement_rollout::PlacementRollout;
use crate::rollout_events;
use crate::sealing::recipient;
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::condition::ConditionStatus::False;
use api::condition::{Observation, set_condition};
use api::gitops::v1alpha1::RolloutPolicy;
use api::names::WORK_REPLICA_SET_FINALIZER;
use api::names::replica_set_conditions::MANIFESTWORK_APPLIED;
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use engine::replica_set;
use engine::rollout::cluster::Hash;
use object::text;
use object::{Key, Metadata as _, Object};
use reconcile::{Action, Controller, Executed, Plan, Read, StatusWrite, View, Watches};

pub(in crate::hub) use self::report::{ReportedSet, last_change, report};

/// Maximum length of an API server error in the status.
const LONGEST_MESSAGE: usize = 600;

/// Maintains one work on each cluster that the placements of a set select.
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
            let fields = |cluster: &ManagedCluster| {
                (is_unreachable(cluster), cluster.is_terminating(), recipient(cluster))
            };
            if change.differs_in(fields) { all(view) } else { Vec::new() }
        });
        watches.on::<RolloutPolicy>(|change, view| {
            if change.differs_in(|policy| &policy.spec) { all(view) } else { quarantined_by(change) }
        });
        watches.on::<ControllerRevision>(|change, _| {
            // A snapshot never changes. A deleted snapshot is written again.
            let gone = change.old.as_deref().filter(|_| change.new.is_none());
            gone.and_then(set_of).into_iter().collect()
        });
        watches.keep::<SetFleets>();
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let Some(set) = view.get::<ManifestWorkReplicaSet>(key)? else { return Ok(Plan::nothing()) };
        if set.is_terminating() {
            return delete(&set, view);
        }
        let mut plan = Plan::nothing();
        plan.step(Action::add_finalizers(set.as_ref(), &[WORK_REPLICA_SET_FINALIZER]));
        match replica_set::owner_label(key) {
            Ok(owner) if plan.is_empty() => SetInput::read(set, owner, view, now)?.plan(view, now),
            Ok(_) => Ok(plan),
            Err(fault) => {
                plan.status = unnamable(&set, &fault, now);
                Ok(plan)
            }
        }
    }

    /// Returns the status. It describes the set as a whole, so a failed write of one work does not delay it; it
    /// names the first failure.
    fn conclude(key: &Key, view: &impl View, done: &Executed, now: Timestamp) -> Read<Option<StatusWrite>> {
        let Some((_, failure)) = done.failures().next() else { return Ok(done.plan.status.clone()) };
        let Some(set) = view.get::<ManifestWorkReplicaSet>(key)? else { return Ok(None) };
        let mut new = Object::from_typed(set.as_ref()).into_value();
        let drafted = done.plan.status.iter().map(|write| Value::Object(write.patch.clone()));
        drafted.for_each(|patch| json_patch::merge(&mut new, &patch));
        let Ok(mut new) = serde_json::from_value::<ManifestWorkReplicaSet>(new) else { return Ok(None) };
        let generation = set.metadata.generation.unwrap_or_default();
        let observed = Observation::new(MANIFESTWORK_APPLIED, False, "NotAsExpected")
            .at(generation)
            .message(text::plain(&failure.message, LONGEST_MESSAGE));
        set_condition(&mut new.status.get_or_insert_default().conditions, observed, now);
        let mut events = done.plan.status.as_ref().map(|write| write.events.clone()).unwrap_or_default();
        events.retain(|event| rollout_events::is_published_for_set(event, done));
        Ok(StatusWrite::between(set.as_ref(), &new).map(|write| write.with_events(events)))
    }
}

/// The rollouts of a set, as decided now.
pub struct SetRollouts {
    /// The rollout of each placement.
    pub rollouts: Vec<PlacementRollout>,
    /// The hashes of the templates, with their number of manifests.
    pub contents: BTreeMap<Hash, usize>,
    /// The reasons that clusters are not done, from the conditions of their works. The texts come from the
    /// clusters and must be escaped.
    pub messages: BTreeMap<String, String>,
}

/// Decides the rollouts of a set without writing anything. Returns `None` if the set does not exist.
///
/// # Errors
/// Fails if a kind or an object that the decision needs could not be read.
pub fn explain(key: &Key, view: &impl View, now: Timestamp) -> Read<Option<SetRollouts>> {
    let Some(set) = view.get::<ManifestWorkReplicaSet>(key)? else { return Ok(None) };
    let Ok(owner) = replica_set::owner_label(key) else { return Ok(None) };
    let mut input = SetInput::read(set, owner, view, now)?;
    let contents = input.contents.iter().map(|(hash, spec)| (hash.clone(), spec.workload.manifests.len()));
    let contents = contents.collect();
    let decided = input.decide(view, now)?;
    let decisions = decided.rollouts.iter().filter_map(|rollout| rollout.decision.as_ref().ok());
    let messages = decisions.flat_map(|decision| report::messages(&input, decision)).collect();
    Ok(Some(SetRollouts { rollouts: decided.rollouts, contents, messages }))
}
