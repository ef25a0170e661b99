//! Checks that deletions stay within budgets and approvals.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::{CheckResult, CheckedDecision, Checker, Invariant, Violation};
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::condition::Conditions as _;
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoInventory, RolloutPolicy, RolloutPolicySpec};
use api::names::approval_reasons::DELETIONS_HELD;
use api::names::{
    APPROVE_DELETION_ANNOTATION, GITOPS_GROUP, INSTALLED_BY_ANNOTATION, REMOVAL_DECIDED_ANNOTATION,
};
use engine::rollout::policy::CombinedPolicy;
use engine::sync::{self, ObjectId};
use object::{Metadata as _, ObjectRef, hex};
use reconcile::{Action, Plan, Query, View};

/// Returns the objects that a plan deletes, with their uids.
fn deleted(plan: &Plan) -> impl Iterator<Item = (&ObjectRef, &str)> {
    plan.steps.iter().flatten().filter_map(|action| match action {
        Action::Delete { target, precondition, .. } => Some((target, precondition.uid.as_str())),
        _ => None,
    })
}

/// Returns the policies that apply to an add-on: policies that name it, and policies that name nothing.
pub(super) fn policies(addon: &str, view: &impl View) -> Vec<Arc<RolloutPolicy>> {
    let mut policies = view.list::<RolloutPolicy>(Query::ALL).unwrap_or_default();
    policies.retain(|policy| {
        let RolloutPolicySpec { add_ons, replica_sets, .. } = &policy.spec;
        add_ons.iter().any(|name| name == addon) || add_ons.is_empty() && replica_sets.is_empty()
    });
    policies
}

/// Returns the value that approves exactly these deletions of objects with their uids.
fn approval(objects: &BTreeMap<ObjectId, &str>) -> String {
    let lines: String = objects.iter().map(|(id, uid)| format!("{id} {uid}\n")).collect();
    hex(Sha256::digest(lines).get(..8).unwrap_or_default())
}

/// Returns true if a patch records the decision to remove its object.
pub(super) fn is_mark(patch: &Map<String, Value>) -> bool {
    let annotations = patch.get("metadata").and_then(|metadata| metadata.get("annotations"));
    annotations
        .and_then(|annotations| annotations.get(REMOVAL_DECIDED_ANNOTATION))
        .is_some_and(Value::is_string)
}

/// Returns the token that approves the removal of an add-on from exactly these clusters, given the uids of their
/// add-ons.
fn removal_approval(add_on: &str, clusters: &BTreeMap<String, String>) -> String {
    let lines: String = clusters.iter().map(|(cluster, uid)| format!("{cluster} {uid}\n")).collect();
    format!("remove/{}", hex(Sha256::digest(format!("{add_on}\n{lines}")).get(..6).unwrap_or_default()))
}

/// Returns the clusters whose add-ons a plan marks, with the add-ons' uids. Skips recorded removals, which were
/// decided without an approval.
fn marked(
    decided: &CheckedDecision<'_>,
    policies: &[Arc<RolloutPolicy>],
    window: SignedDuration,
) -> BTreeMap<String, String> {
    let CheckedDecision { key, view, plan, now, .. } = decided;
    let removals = policies.iter().filter_map(|policy| policy.status.as_ref()).flat_map(|it| &it.removals);
    let recent = removals
        .filter(|removal| removal.add_on == key.name)
        .flat_map(|removal| &removal.recent)
        .filter(|removal| removal.time.0.saturating_add(window).is_ok_and(|end| end > *now));
    let recorded: BTreeSet<&str> = recent.map(|removal| removal.cluster.as_str()).collect();
    let marks = plan.steps.iter().flatten().filter_map(|action| match action {
        Action::Patch { target, patch, .. } if target.gvk.kind == "ManagedClusterAddOn" && is_mark(patch) => {
            let addon = view.get::<ManagedClusterAddOn>(&target.key).ok().flatten()?;
            Some((target.key.namespace.clone(), addon.uid().to_owned()))
        }
        _ => None,
    });
    marks.filter(|(cluster, _)| !recorded.contains(cluster.as_str())).collect()
}

impl Checker {
    /// Checks that a repository's deletions within the budget window stay within the budget, or that a person
    /// approved exactly these deletions. Without a window, each commit is counted separately.
    pub(super) fn prunes_within_budget(&mut self, decided: &CheckedDecision<'_>) -> CheckResult {
        let CheckedDecision { controller: "config-repo", key, view, plan, now, .. } = decided else {
            return Ok(());
        };
        let pruned = self.pruned.entry((*key).clone()).or_default();
        // A clock that was ahead may have recorded a future time. Count it as the present from the next plan on.
        for (at, _) in pruned.values_mut() {
            *at = (*at).min(*now);
        }
        for applied in plan.steps.iter().flatten().filter(|it| matches!(it, Action::Apply { .. })) {
            pruned.retain(|id, _| applied.target().is_none_or(|target| *id != ObjectId::of(&target)));
        }
        let deletes: BTreeMap<ObjectId, &str> =
            deleted(plan).map(|(target, uid)| (ObjectId::of(target), uid)).collect();
        let Ok(Some(repo)) = view.get::<ConfigRepo>(key) else { return Ok(()) };
        if deletes.is_empty() || repo.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let approved = repo.annotation(APPROVE_DELETION_ANNOTATION).unwrap_or_default();
        let uids: BTreeSet<_> = deletes.iter().map(|(id, uid)| (id.clone(), (*uid).to_owned())).collect();
        if approved == approval(&deletes) {
            self.approved.insert((*key).clone(), (approved.to_owned(), uids.clone()));
        }
        if self.approved.get(key).is_some_and(|(given, of)| given == approved && uids.is_subset(of)) {
            return Ok(());
        }
        let budget = &repo.spec.deletion_budget;
        let commit = view
            .source(key)
            .and_then(|source| source.checkout.clone())
            .map(|checkout| checkout.revision.clone())
            .unwrap_or_default();
        let window = object::duration::parse(&budget.window).unwrap_or_default();
        let is_over = |at: Timestamp| at.saturating_add(window).is_ok_and(|end| end <= *now);
        pruned.retain(|_, (at, of)| !is_over(*at) || window.is_zero() && *of == commit);
        // The inventory no longer lists objects that earlier deletions removed.
        let parts = view.list::<ConfigRepoInventory>(Query::ALL).unwrap_or_default();
        let recorded = sync::recorded(&repo, parts.iter().map(|part| &**part));
        let earlier = pruned.keys().filter(|id| !recorded.contains_key(*id)).count();
        let owned = recorded.len() + earlier;
        let size = |number: i32| usize::try_from(number).unwrap_or_default();
        let allowed = size(budget.objects).max(owned * size(budget.percent) / 100);
        if allowed >= owned && !window.is_zero() {
            return Ok(());
        }
        pruned.extend(deletes.into_keys().map(|id| (id, (*now, commit.clone()))));
        if pruned.len() <= allowed {
            return Ok(());
        }
        let reason = format!("{} deletions within the window, and {allowed} are allowed", pruned.len());
        Err(Violation::new(Invariant::DeletionBudget, key, reason))
    }

    /// Returns true if deletions are waiting for the end of a window or for a person.
    pub(super) fn has_held_deletions(&self) -> bool {
        let mut repos = self
            .hub
            .of_kind(GITOPS_GROUP, "ConfigRepo")
            .filter_map(|repo| repo.to_typed::<ConfigRepo>().ok());
        repos.any(|repo| repo.conditions().iter().any(|condition| condition.reason == DELETIONS_HELD))
    }

    /// Checks that an add-on is removed from no more clusters within the window than its policy allows, unless a
    /// person approved exactly these removals, and that a paused policy removes nothing.
    pub(super) fn removals_within_budget(&mut self, decided: &CheckedDecision<'_>) -> CheckResult {
        let CheckedDecision { controller: "addon-install", key, view, plan, now, .. } = decided else {
            return Ok(());
        };
        let removed = deleted(plan).filter(|(target, _)| target.gvk.kind == "ManagedClusterAddOn");
        let removed: BTreeMap<String, &str> =
            removed.map(|(target, uid)| (target.key.namespace.clone(), uid)).collect();
        let policies = policies(&key.name, *view);
        let named: Vec<_> = policies.iter().map(|policy| (policy.name(), &policy.spec)).collect();
        let policy = CombinedPolicy::read(&named).map(|combined| combined.policy);
        let window = policy.as_ref().map(|policy| policy.removal_window).unwrap_or_default();
        let marked = marked(decided, &policies, window);
        let token = removal_approval(&key.name, &marked);
        if policies.iter().any(|policy| policy.spec.approved.contains(&token)) {
            self.leaving.extend(marked.into_values());
        }
        if removed.is_empty() {
            return Ok(());
        }
        let cma = view.get::<ClusterManagementAddOn>(key).ok().flatten().filter(|cma| cma.is_terminating());
        let is_approved =
            cma.as_ref().is_some_and(|cma| cma.annotation(REMOVAL_DECIDED_ANNOTATION) == Some(cma.uid()));
        let Ok(policy) = policy else {
            let reason = "a policy that cannot be read allows no removal";
            return Err(Violation::new(Invariant::DeletionBudget, key, reason));
        };
        if policy.paused {
            let reason = format!("{} clusters lose the add-on", removed.len());
            return Err(Violation::new(Invariant::PauseHolds, key, reason));
        }
        let installed = view.list::<ManagedClusterAddOn>(Query::ALL).unwrap_or_default();
        let named =
            |addon: &&Arc<ManagedClusterAddOn>| addon.metadata.name.as_deref() == Some(key.name.as_str());
        let of_people = installed.iter().filter(named).find(|addon| {
            removed.contains_key(addon.namespace()) && addon.annotation(INSTALLED_BY_ANNOTATION).is_none()
        });
        if let (Some(addon), None) = (of_people, &cma) {
            let reason =
                format!("addon-install deletes the add-on that a person installed on {}", addon.namespace());
            return Err(Violation::new(Invariant::NothingUnownedIsDeleted, key, reason));
        }
        let mut all: BTreeSet<String> =
            installed.iter().filter(named).filter_map(|addon| addon.metadata.namespace.clone()).collect();
        if is_approved {
            return Ok(());
        }
        let counted = removed.into_iter().filter(|(_, uid)| !self.leaving.contains(*uid));
        let counted: Vec<String> = counted.map(|(cluster, _)| cluster).collect();
        let recent = self.removed.entry(key.name.clone()).or_default();
        recent.retain(|_, at| at.saturating_add(policy.removal_window).is_ok_and(|end| end > *now));
        if counted.is_empty() {
            return Ok(());
        }
        recent.extend(counted.into_iter().map(|cluster| (cluster, *now)));
        all.extend(recent.keys().cloned());
        let (lost, total) = (recent.len(), all.len());
        let allowed = policy.removals.of(total);
        if lost <= allowed {
            return Ok(());
        }
        let reason =
            format!("{lost} of {total} clusters lose the add-on within the window, and {allowed} may");
        Err(Violation::new(Invariant::DeletionBudget, key, reason))
    }
}
