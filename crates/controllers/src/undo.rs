//! Reverts a rollout, for `wheelwright rollout undo` and the dashboard.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::placement_rollout::PlacementRollout;
use crate::policy_change::all_for;
use api::gitops::v1alpha1::{RolloutPolicy, RolloutPolicySpec, RolloutStatus};
use engine::rollout::cluster::{Cluster, Hash};
use engine::rollout::{self, ClusterState, Input, RolloutDecision};
use object::Key;

/// A revision on the clusters of a placement, and the effect of reverting it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undo {
    pub placement: Key,
    pub revision: Hash,
    /// The display name of the revision.
    pub named: String,
    /// The cluster on which it failed and the reason; empty if it has not failed.
    pub failure: String,
    /// The effect on clusters.
    pub effect: UndoEffect,
}

/// The clusters that an undo affects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UndoEffect {
    /// The clusters that leave the revision, by the display name of the revision that they return to.
    pub returning: BTreeMap<String, Vec<String>>,
    /// The clusters that keep the revision, because no earlier one succeeded on them.
    pub kept: Vec<String>,
    /// The number of clusters that never got the revision.
    pub spared: usize,
}

/// The reason that nothing can be reverted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoUndo {
    /// The rollout is done, so no cluster would return.
    Done,
    /// No rollout exists.
    NoRollout,
}

/// Returns the revisions that an undo reverts: on placements with a rollout in progress, and on placements without
/// clusters that would get the same revision later. `name` returns the display name of a revision.
///
/// # Errors
/// Fails if no rollout is in progress.
pub fn undo_of(
    rollouts: &[PlacementRollout],
    name: impl Fn(&Hash) -> String,
    now: Timestamp,
) -> Result<Vec<Undo>, NoUndo> {
    let decided = rollouts.iter().filter_map(|rollout| {
        let (input, decision) = (rollout.input.as_deref()?, rollout.decision.as_deref().ok()?);
        let undone = is_open(decision).then(|| rollout::undone(input, now));
        Some((rollout, input, decision, undone))
    });
    let decided: Vec<_> = decided.collect();
    let under_way = decided.iter().filter(|(.., undone)| undone.as_ref().is_some_and(may_return));
    let revisions: BTreeSet<&Hash> = under_way.map(|(rollout, ..)| &rollout.revision).collect();
    if revisions.is_empty() {
        let is_done = |decision: &RolloutDecision| decision.counts.total > 0 && decision.quarantine.is_none();
        let is_done = decided.iter().any(|(_, _, decision, _)| is_done(decision));
        return Err(if is_done { NoUndo::Done } else { NoUndo::NoRollout });
    }
    let undo = decided.iter().filter_map(|(rollout, input, decision, undone)| {
        let effect = match undone {
            Some(undone) if may_return(undone) => UndoEffect::new(input, undone, &name),
            _ if decision.counts.total == 0 && revisions.contains(&rollout.revision) => UndoEffect::default(),
            _ => return None,
        };
        Some(Undo {
            placement: rollout.placement.clone(),
            revision: rollout.revision.clone(),
            named: name(&rollout.revision),
            failure: rollout.failure.clone(),
            effect,
        })
    });
    Ok(undo.collect())
}

/// Returns true if a rollout is in progress. A revision that is done on all clusters is itself what they return
/// to.
fn is_open(decision: &RolloutDecision) -> bool {
    decision.quarantine.is_none() && !decision.counts.is_complete()
}

/// Returns true if a quarantine affects any cluster.
fn may_return(undone: &RolloutDecision) -> bool {
    undone.clusters.values().any(|assignment| assignment.state.is_quarantined())
}

impl UndoEffect {
    fn new(input: &Input, undone: &RolloutDecision, name: impl Fn(&Hash) -> String) -> Self {
        let mut effect = Self::default();
        let has_it = |cluster: &&Cluster| cluster.runs.as_ref() == Some(&cluster.wants);
        let has_it: BTreeSet<&str> =
            input.clusters.iter().filter(has_it).map(|cluster| cluster.name.as_str()).collect();
        for (cluster, assignment) in &undone.clusters {
            match &assignment.state {
                state if !state.is_quarantined() => {}
                ClusterState::Returning { to, unreachable: _ } if has_it.contains(cluster.as_str()) => {
                    effect.returning.entry(name(to)).or_default().push(cluster.clone());
                }
                _ if has_it.contains(cluster.as_str()) => effect.kept.push(cluster.clone()),
                _ => effect.spared += 1,
            }
        }
        effect
    }
}

/// Removes the releases of the reverted revisions from the rules of a policy.
pub fn take_back(undo: &[Undo], spec: &mut RolloutPolicySpec) {
    spec.released_revisions.retain(|revision| !is_undone(undo, revision));
}

/// Returns the policies for a subject that release one of the reverted revisions.
pub fn releasing<'a>(policies: &'a [RolloutPolicy], subject: &str, undo: &[Undo]) -> Vec<&'a RolloutPolicy> {
    let mut policies = all_for(policies, subject);
    policies.retain(|policy| policy.spec.released_revisions.iter().any(|one| is_undone(undo, one)));
    policies
}

fn is_undone(undo: &[Undo], revision: &str) -> bool {
    undo.iter().any(|one| one.revision.0 == revision)
}

/// Quarantines the reverted revisions in the records of rollouts.
pub fn quarantine(undo: &[Undo], subject: &str, rollouts: &mut Vec<RolloutStatus>) {
    let (add_on, replica_set) = if subject.contains('/') { ("", subject) } else { (subject, "") };
    for Undo { placement: Key { namespace, name }, revision: Hash(revision), failure, .. } in undo {
        let is_it = |one: &RolloutStatus| {
            (one.add_on.as_str(), one.replica_set.as_str()) == (add_on, replica_set)
                && (&one.placement_namespace, &one.placement_name) == (namespace, name)
        };
        if let Some(present) = rollouts.iter_mut().find(|rollout| is_it(rollout)) {
            present.quarantined.clone_from(revision);
            present.failure.clone_from(failure);
            continue;
        }
        rollouts.push(RolloutStatus {
            add_on: add_on.into(),
            replica_set: replica_set.into(),
            placement_namespace: namespace.clone(),
            placement_name: name.clone(),
            revision: revision.clone(),
            quarantined: revision.clone(),
            failure: failure.clone(),
            ..RolloutStatus::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use engine::rollout::cluster::Group;
    use engine::rollout::strategy::{Progressive, Strategy};

    fn undo(clusters: &[(&str, &str, Option<&str>)]) -> Result<Vec<Undo>, NoUndo> {
        let now = Timestamp::UNIX_EPOCH;
        let mut input = Input::new("r2", Ok(Strategy::Progressive(Progressive::default())));
        let names = clusters.iter().map(|(name, ..)| (*name).to_owned()).collect();
        input.groups = vec![Group { clusters: names, ..Group::default() }];
        let cluster = |(name, runs, good): &(&str, &str, Option<&str>)| Cluster {
            name: (*name).into(),
            wants: "r2".into(),
            runs: Some((*runs).into()),
            last_good: good.map(Into::into),
            ..Cluster::default()
        };
        input.clusters = clusters.iter().map(cluster).collect();
        let placement = Key::namespaced("fleet", "all");
        let undecided = PlacementRollout::undecided(placement, "r2".into(), String::new());
        let decision = Ok(Arc::new(rollout::advance(&input, now)));
        let rollout = PlacementRollout { input: Some(Arc::new(input)), decision, ..undecided };
        undo_of(&[rollout], |hash| format!("version {hash}"), now)
    }

    #[test]
    fn only_a_rollout_in_progress_is_undone() {
        assert!(undo(&[("a", "r2", Some("r1"))]).is_ok());
        assert!(undo(&[("a", "r2", None)]).is_ok());
        assert_eq!(undo(&[("a", "r2", Some("r2")), ("b", "r1", Some("r2"))]), Err(NoUndo::Done));
        assert_eq!(undo(&[]), Err(NoUndo::NoRollout));
    }

    #[test]
    fn the_effect_names_the_clusters_that_return_and_to_what_and_those_that_cannot() {
        let undo = undo(&[("a", "r2", Some("r1")), ("b", "r2", None), ("c", "r1", Some("r1"))]).unwrap();
        let returning = [("version r1".to_owned(), vec!["a".to_owned()])].into();
        let effect = UndoEffect { returning, kept: vec!["b".into()], spared: 1 };
        assert_eq!((undo.len(), &undo[0].effect), (1, &effect));
        assert_eq!(undo[0].named, "version r2");
    }
}
