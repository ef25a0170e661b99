//! Checks that the works of replica sets change only as the rollout engine's oracle allows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::rollout::{after, promise};
use super::{CheckResult, CheckedDecision, Checker, Invariant, Violation};
use api::names::WORK_REPLICA_SET_LABEL;
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use controllers::hub::replica_set::explain;
use engine::replica_set::{self, WorkRecord};
use engine::rollout::Input;
use engine::rollout::RolloutDecision;
use engine::rollout::cluster::{Cluster, Hash};
use object::{Key, Metadata as _};
use reconcile::{Action, Plan, Query, Subresource, View};

/// A plan's changes to the works of a set, by cluster.
#[derive(Default)]
struct WorkChanges {
    /// The templates of the works that the plan writes.
    assigned: BTreeMap<String, Hash>,
    /// The clusters that have no work after the plan.
    lost: BTreeSet<String>,
    /// True if the plan creates the policy that records removals; no removals are recorded before it exists.
    makes_policy: bool,
}

impl Checker {
    /// Checks that the works written and deleted by one plan of a set keep the promises of a rollout.
    pub(super) fn set_rollout(&self, decided: &CheckedDecision<'_>) -> CheckResult {
        let CheckedDecision { key, view, plan, now, .. } = decided;
        let Ok(Some(set)) = view.get::<ManifestWorkReplicaSet>(key) else { return Ok(()) };
        let changes = WorkChanges::read(key, plan, *view)?;
        if set.is_terminating() || prepares(plan) {
            return match changes.assigned.keys().next() {
                Some(cluster) => Err(broken(key, cluster, "a set that is not ready assigns nothing")),
                None => Ok(()),
            };
        }
        let Ok(Some(explanation)) = explain(key, *view, *now) else { return Ok(()) };
        let mut concerned = BTreeSet::new();
        for rollout in explanation.rollouts {
            let (Some(input), Ok(mut decision)) = (rollout.input, rollout.decision) else { continue };
            let members = input.clusters.iter().filter(|c| decision.clusters.contains_key(&c.name));
            self.own_works_are_seen(key, members)?;
            concerned.extend(decision.clusters.keys().cloned());
            concerned.extend(decision.removed.iter().chain(&decision.kept).cloned());
            changes.replace_in(Arc::make_mut(&mut decision), &input);
            promise(&input, &decision, *now, &replica_set::name(key))?;
        }
        let changed = changes.assigned.keys().chain(&changes.lost);
        match changed.into_iter().find(|cluster| !concerned.contains(*cluster)) {
            Some(cluster) => Err(broken(key, cluster, "no placement of the set decides about it")),
            None => Ok(()),
        }
    }

    /// Checks that a template counts from the write of its work, regardless of what the watch has delivered.
    fn own_works_are_seen<'a>(&self, set: &Key, members: impl Iterator<Item = &'a Cluster>) -> CheckResult {
        for cluster in members {
            let key = Key::namespaced(&cluster.name, replica_set::name(set));
            let work = self.hub.typed::<ManifestWork>(&key).filter(|work| is_live(set, work));
            let written = work.and_then(|work| WorkRecord::read(&work).template);
            self.own_write_is_seen(key, written, cluster.runs.as_ref())?;
        }
        Ok(())
    }
}

impl WorkChanges {
    fn read(set: &Key, plan: &Plan, view: &impl View) -> Result<Self, Violation> {
        let (mut changes, mut deleted) = (Self::default(), BTreeSet::new());
        for action in plan.steps.iter().flatten() {
            let work = match action {
                Action::Create { object, .. } if object.kind() == "ManifestWork" => object.to_typed().ok(),
                Action::Patch { target, subresource: Subresource::None, patch, .. }
                    if target.gvk.kind == "ManifestWork" && !super::budget::is_mark(patch) =>
                {
                    let before = view.get::<ManifestWork>(&target.key).ok().flatten();
                    before.map(|before| after(before.as_ref(), patch))
                }
                Action::Delete { target, .. } if target.gvk.kind == "ManifestWork" => {
                    deleted.insert(target.key.clone());
                    None
                }
                Action::Create { object, .. } if object.kind() == "RolloutPolicy" => {
                    changes.makes_policy = true;
                    None
                }
                _ => None,
            };
            let Some(work) = work else { continue };
            let (cluster, template) = (work.namespace(), WorkRecord::read(&work).template);
            match template.filter(|hash| *hash == replica_set::hash(&replica_set::content(&work.spec))) {
                Some(template) => changes.assigned.insert(cluster.to_owned(), template),
                None => return Err(broken(set, cluster, "a work has the template that it records")),
            };
        }
        // A cluster may have a surplus work.
        let owner = replica_set::owner_label(set).unwrap_or_default();
        let works = view
            .list_readable::<ManifestWork>(Query::label(WORK_REPLICA_SET_LABEL, &owner))
            .unwrap_or_default();
        let staying: BTreeSet<&str> = works
            .iter()
            .map(Arc::as_ref)
            .filter(|work| is_live(set, work))
            .filter(|work| !deleted.contains(&Key::of(*work)))
            .map(|work| work.namespace())
            .collect();
        let clusters = deleted.iter().map(|work| work.namespace.clone());
        changes.lost = clusters.filter(|cluster| !staying.contains(cluster.as_str())).collect();
        Ok(changes)
    }

    /// Replaces a decision's assignments and removals with the plan's.
    fn replace_in(&self, decision: &mut RolloutDecision, input: &Input) {
        let runs = |name: &str| input.clusters.iter().find(|c| c.name == name)?.runs.clone();
        for (name, assignment) in &mut decision.clusters {
            let stays = || runs(name).filter(|_| !self.lost.contains(name));
            assignment.assigned = self.assigned.get(name).cloned().or_else(stays);
        }
        if self.makes_policy && self.lost.is_empty() {
            return;
        }
        let mut left: Vec<String> = decision.removed.drain(..).chain(decision.kept.drain(..)).collect();
        left.sort();
        (decision.removed, decision.kept) = left.into_iter().partition(|name| self.lost.contains(name));
    }
}

/// Returns true if a plan only writes the set itself, which happens before it writes any work.
fn prepares(plan: &Plan) -> bool {
    plan.steps.iter().flatten().any(|action| {
        matches!(action, Action::Patch { target, .. } if target.gvk.kind == "ManifestWorkReplicaSet")
    })
}

fn is_live(set: &Key, work: &ManifestWork) -> bool {
    replica_set::is_owned(set, work) && !work.is_terminating()
}

fn broken(set: &Key, cluster: &str, reason: &str) -> Violation {
    Violation::new(Invariant::RolloutPromise, Key::namespaced(cluster, replica_set::name(set)), reason)
}
