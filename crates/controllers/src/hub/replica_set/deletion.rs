//! The deletion of a set.

use crate::rollout_policy::{self, RolloutOwner};
use api::gitops::v1alpha1::RolloutPolicy;
use api::names::{WORK_REPLICA_SET_FINALIZER, WORK_REPLICA_SET_LABEL};
use api::work::v1::ManifestWork;
use api::work::v1alpha1::{CascadeDeletionPolicy, ManifestWorkReplicaSet};
use engine::replica_set;
use object::{Key, Metadata as _};
use reconcile::{Action, Plan, Query, Read, View};

/// Deletes the works of a set that is being deleted. With the policy Foreground, the set waits until they are
/// gone.
pub(super) fn delete(set: &ManifestWorkReplicaSet, view: &impl View) -> Read<Plan> {
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
    let subject = RolloutOwner::ReplicaSet(&key);
    let policies = view.list::<RolloutPolicy>(Query::ALL)?;
    plan.step(policies.iter().filter_map(|policy| rollout_policy::remember(policy, subject, Vec::new())));
    let waits = match &set.spec.cascade_deletion_policy {
        CascadeDeletionPolicy::Foreground => !works.is_empty(),
        CascadeDeletionPolicy::Background | CascadeDeletionPolicy::Other(_) => false,
    };
    if !waits {
        plan.step(Action::remove_finalizers(set, &[WORK_REPLICA_SET_FINALIZER]));
    }
    Ok(plan)
}
