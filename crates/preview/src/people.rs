//! Simulates the person who grants the approvals that rollouts request.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::json;

use super::fleet::{PreviewWorkload, all, get};
use super::results::ApprovalRequest;
use super::scope::PreviewScope;
use api::gitops::v1alpha1::{ConfigRepo, RolloutPolicy, RolloutStatus};
use api::names::{APPROVE_PLAN_ANNOTATION, GITOPS_GROUP};
use object::Key;
use store::{Patch, ResourcePath, Store, WriteOptions};

/// Approves the plans that ConfigRepos hold; returns their hashes.
pub(super) fn approve_plans(hub: &mut Store, repos: &[ConfigRepo], now: Timestamp) -> BTreeMap<Key, String> {
    let approved = repos.iter().map(Key::of).map(|repo| (repo.clone(), approve_plan(hub, &repo, now)));
    approved.filter(|(_, hash)| !hash.is_empty()).collect()
}

/// Approves the plan that a ConfigRepo holds; returns its hash, or an empty string if it holds none.
fn approve_plan(hub: &mut Store, repo: &Key, now: Timestamp) -> String {
    let status = get::<ConfigRepo>(hub, repo).and_then(|repo| repo.status);
    let hash = status.unwrap_or_default().held_plan;
    if hash.is_empty() {
        return hash;
    }
    let patch = Patch::Merge(json!({"metadata": {"annotations": {APPROVE_PLAN_ANNOTATION: hash}}}));
    let written =
        hub.patch(&ResourcePath::of::<ConfigRepo>(repo), &patch, &WriteOptions::manager("approver"), now);
    debug_assert!(written.is_ok(), "{repo}: {written:?}");
    hash
}

/// Grants every approval that a scope's rollouts are waiting for; returns the newly granted ones.
pub(super) fn approve(
    hub: &mut Store,
    scope: &PreviewScope,
    start: Timestamp,
    now: Timestamp,
) -> Vec<ApprovalRequest> {
    let mut granted = Vec::new();
    for policy in all::<RolloutPolicy>(hub).collect::<Vec<_>>() {
        let key = Key::of(&policy);
        let rollouts = policy.status.iter().flat_map(|status| &status.rollouts);
        let rollouts = rollouts
            .filter(|rollout| scope.has(&PreviewWorkload::named(&rollout.add_on, &rollout.replica_set)));
        let waiting = rollouts.flat_map(|rollout| {
            let RolloutStatus { add_on, replica_set, .. } = rollout;
            rollout.waiting_approvals.iter().map(|token| (add_on.clone(), replica_set.clone(), token.clone()))
        });
        let waiting: BTreeSet<_> =
            waiting.filter(|(.., token)| !policy.spec.approved.contains(token)).collect();
        if waiting.is_empty() {
            continue;
        }
        let tokens: BTreeSet<&String> =
            policy.spec.approved.iter().chain(waiting.iter().map(|(.., token)| token)).collect();
        let patch = json!({"apiVersion": format!("{GITOPS_GROUP}/v1alpha1"), "kind": "RolloutPolicy",
            "metadata": {"name": key.name}, "spec": {"approved": tokens}});
        let options = WriteOptions::manager("approver").forced();
        let target = ResourcePath::of::<RolloutPolicy>(&key);
        if hub.patch(&target, &Patch::Apply(patch), &options, now).is_ok() {
            granted.extend(waiting.into_iter().map(|(add_on, replica_set, token)| ApprovalRequest {
                after: now.duration_since(start).as_secs(),
                policy: key.name.clone(),
                add_on,
                replica_set,
                token,
            }));
        }
    }
    granted
}
