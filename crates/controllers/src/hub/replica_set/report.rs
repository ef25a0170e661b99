//! Reads a set on its clusters for a report.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::input::SetInput;
use crate::MESSAGE;
use crate::placement_rollout::{PlacementRollout, reason};
use api::condition::Conditions as _;
use api::names::WORK_REPLICA_SET_LABEL;
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use engine::replica_set;
use engine::report::{Rollout, Workload, WorkloadCluster};
use engine::rollout::{ClusterState, RolloutDecision};
use object::Key;
use object::text::plain;
use reconcile::{Query, Read, View};

/// A set on its clusters.
pub(in crate::hub) struct ReportedSet {
    pub(in crate::hub) set: Workload,
    /// The rollout of each placement.
    pub(in crate::hub) rollouts: Vec<PlacementRollout>,
    /// The time at which the state of a cluster changes without an event.
    pub(in crate::hub) recheck: Option<Timestamp>,
}

/// Reads a set for a report; `None` if its name is invalid, so that it has no works.
pub(in crate::hub) fn report(
    set: &Arc<ManifestWorkReplicaSet>,
    view: &impl View,
    now: Timestamp,
) -> Read<Option<ReportedSet>> {
    let key = Key::of(set.as_ref());
    let Ok(owner) = replica_set::owner_label(&key) else { return Ok(None) };
    let mut input = SetInput::read(Arc::clone(set), owner, view, now)?;
    let decided = input.decide(view, now)?;
    let (mut rollouts, mut clusters) = (Vec::new(), Vec::new());
    for (node, rollout) in input.placements.iter().zip(&decided.rollouts) {
        let decision = match &rollout.decision {
            Ok(decision) => decision,
            Err(error) => {
                rollouts.push(Rollout {
                    placement: rollout.placement.to_string(),
                    state: if node.exists { "Progressing" } else { "PlacementDecisionNotFound" }.into(),
                    message: error.clone(),
                    ..Rollout::default()
                });
                continue;
            }
        };
        rollouts.push(Rollout::from_decision(decision, &rollout.record.clone().unwrap_or_default()));
        clusters.extend(self::clusters(&input, decision).map(Arc::new));
    }
    let recheck = decided.rollouts.iter().filter_map(PlacementRollout::recheck).min();
    let set = Workload::from_set(&key, rollouts, &decided.records(), clusters);
    Ok(Some(ReportedSet { set, rollouts: decided.rollouts, recheck }))
}

/// Returns the clusters of a placement, with the works on them.
fn clusters(input: &SetInput, decision: &RolloutDecision) -> impl Iterator<Item = WorkloadCluster> {
    decision.clusters.iter().map(|(name, assignment)| {
        let work = input.fleet.works.get(name).map(|(work, runs)| (work.as_ref(), runs));
        WorkloadCluster::from_work(name, &assignment.state, work)
    })
}

/// Returns the reported reasons that clusters of a placement are not done or do not work.
pub(super) fn messages(input: &SetInput, decision: &RolloutDecision) -> BTreeMap<String, String> {
    // The works of an unreachable cluster are not up to date.
    let reachable = clusters(input, decision)
        .filter(|cluster| !matches!(cluster.state, ClusterState::Unreachable { .. }));
    let messages = reachable.filter_map(|cluster| {
        let message = || Some(plain(&cluster.message, MESSAGE)).filter(|_| !cluster.message.is_empty());
        let reason = reason(&cluster.state, !cluster.available, message)?;
        Some((cluster.name, reason))
    });
    messages.collect()
}

/// Returns when the conditions of a set's works last changed.
pub(in crate::hub) fn last_change(set: &Key, view: &impl View, now: Timestamp) -> Read<Option<Timestamp>> {
    let Ok(owner) = replica_set::owner_label(set) else { return Ok(None) };
    let mut works = view.list_readable::<ManifestWork>(Query::label(WORK_REPLICA_SET_LABEL, &owner))?;
    works.retain(|work| replica_set::is_owned(set, work));
    Ok(engine::report::last_change(works.iter().flat_map(|work| work.conditions()), now))
}
