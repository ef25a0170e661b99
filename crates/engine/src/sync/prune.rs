//! Deletes objects that left the repository.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Arc;

use jiff::Timestamp;

use api::gitops::v1alpha1::ConfigRepo;
use api::names;
use object::{Gvk, Key, Object, ObjectRef};

use super::argo;
use super::budget::{self, Allowed, Deletions, Recent};
use super::input::{SyncInput, SyncPolicy};
use super::ownership::is_marked;
use super::writes::{Deletion, HandOver, SyncPlan, Terminating};
use super::{Budget, DeletionHold, Desired, Inventory, ObjectId};
use crate::order::{HUB_STAGES, hub_stage};

/// The decision about an object that is in the inventory but not in the repository.
enum PruneDecision {
    /// The object is gone, has another owner, or is kept on purpose. It leaves the inventory.
    Release,
    /// The kind could not be read, so the object stays in the inventory. It counts as a deletion, because it may
    /// become one.
    Unknown,
    /// The object is being deleted. It stays in the inventory until it is gone.
    Terminating(Terminating),
    /// The object will be deleted. It stays in the inventory until it is gone.
    Delete(Arc<Object>),
    /// Another ConfigRepo requested the object, or Argo CD applies it now. It stays in the inventory until the
    /// new owner has it.
    HandOver(HandOver),
}

/// Decides about every object that left the repository, and adds the deletions to the plan.
pub(super) fn prune<E: Display>(
    input: &SyncInput<'_>,
    live: &impl Fn(&ObjectRef) -> Result<Option<Arc<Object>>, E>,
    plan: &mut SyncPlan<'_>,
) {
    let mut to_delete: BTreeMap<ObjectId, Arc<Object>> = BTreeMap::new();
    plan.recent = input.policy.budget.map(|it| it.within_window(input.recent, input.now)).unwrap_or_default();
    // Objects that the commit wants again no longer count as deleted.
    plan.recent.retain(|id, _| !plan.inventory.contains_key(id));
    let mut remaining = Inventory::new();
    let mut counted: BTreeMap<ObjectId, String> = BTreeMap::new();
    for (id, version) in input.inventory.iter().filter(|(id, _)| !plan.inventory.contains_key(*id)) {
        match decide(input, id, live(&id.at(version))) {
            PruneDecision::Release => continue,
            PruneDecision::Unknown => {
                if input.policy.prune {
                    counted.insert(id.clone(), String::new());
                }
            }
            PruneDecision::Terminating(terminating) => plan.terminating.push(terminating),
            PruneDecision::Delete(object) => {
                counted.insert(id.clone(), object.uid().to_owned());
                to_delete.insert(id.clone(), object);
            }
            PruneDecision::HandOver(hand_over) => plan.hand_over.push(hand_over),
        }
        remaining.insert(id.clone(), version.clone());
    }
    if counted.is_empty() || input.awaits_requests {
        plan.inventory.extend(remaining);
        plan.awaiting_requests = counted.len();
        plan.is_approved = input.policy.approves_rest && !counted.is_empty();
        return;
    }
    let uninstalls = &input.policy.uninstalls;
    let asks = |object: &Object| {
        object.annotations().get(names::PRUNE_ANNOTATION) == Some(&"confirm")
            || argo::has_sync_option(object, "Prune", "confirm")
    };
    let confirm: Vec<_> = to_delete.iter().filter(|(_, live)| asks(live)).map(|(id, _)| id.clone()).collect();
    let config_repos = config_repos(&to_delete);
    let deletions = Deletions {
        objects: &counted,
        owned: input.inventory.len(),
        recent: &plan.recent,
        desired: &plan.inventory.keys().collect::<BTreeSet<_>>(),
        uninstalls,
        config_repos: &config_repos,
        confirm: &confirm,
    };
    let allowed = judge(input, &deletions);
    plan.inventory.extend(remaining);
    match allowed {
        Ok(Allowed::Approved) => plan.is_approved = true,
        Ok(Allowed::WithinBudget(new)) => record(new, &to_delete, input.now, &mut plan.recent),
        Err(hold) => {
            plan.hold = Some(hold);
            return;
        }
    }
    for stage in (0..HUB_STAGES).rev() {
        let of_stage = to_delete.values().filter(|object| hub_stage(&object.gvk()) == stage);
        let is_approved = |target: &ObjectRef| {
            input.policy.budget.is_some() && uninstalls.contains_key(&ObjectId::of(target))
        };
        let delete = |object: &Arc<Object>| {
            let target = object.reference();
            Deletion { is_approved: is_approved(&target), target, uid: object.uid().to_owned() }
        };
        let deletions: Vec<_> = of_stage.map(delete).collect();
        if !deletions.is_empty() {
            plan.delete.push(deletions);
        }
    }
}

/// Decides whether deletions are allowed.
///
/// # Errors
/// Returns the hold if the deletions must wait for an approval.
fn judge(input: &SyncInput<'_>, deletions: &Deletions<'_>) -> Result<Allowed, DeletionHold> {
    let SyncPolicy { approved, approves_rest, budget, .. } = input.policy;
    if *approves_rest {
        return Ok(Allowed::Approved);
    }
    let unlimited = || Ok(Allowed::WithinBudget(BTreeSet::new()));
    let mut allowed = budget.map_or_else(unlimited, |budget| budget::spend(budget, deletions, approved));
    if let Some(reason) = input.unjudged {
        let none = Deletions { recent: &Recent::new(), desired: &BTreeSet::new(), ..*deletions };
        let other = allowed.as_ref().err().map(|hold| format!("; {}", hold.why)).unwrap_or_default();
        let spent = budget::spend(Budget::NONE, &none, approved);
        allowed = spent.map_err(|hold| DeletionHold { why: format!("{reason}{other}"), ..hold });
    }
    allowed
}

/// Returns the ConfigRepos that delete their objects on deletion, and the number of these objects. A ConfigRepo
/// that cannot be parsed counts as one of them.
fn config_repos(to_delete: &BTreeMap<ObjectId, Arc<Object>>) -> BTreeMap<ObjectId, i32> {
    let repos = to_delete.iter().filter(|(_, live)| live.gvk() == Gvk::of::<ConfigRepo>());
    let owned = |live: &Object| match live.to_typed::<ConfigRepo>() {
        Ok(repo) => {
            repo.deletes_objects().then(|| repo.status.and_then(|status| status.objects).unwrap_or_default())
        }
        Err(_) => Some(0),
    };
    repos.filter_map(|(id, live)| Some((id.clone(), owned(live)?))).collect()
}

/// Records deletions before they are executed.
fn record(
    spent: BTreeSet<ObjectId>,
    to_delete: &BTreeMap<ObjectId, Arc<Object>>,
    now: Timestamp,
    recent: &mut Recent,
) {
    let at = budget::recorded(now);
    recent.extend(spent.into_iter().filter(|id| to_delete.contains_key(id)).map(|id| (id, at)));
}

/// Returns the objects that left the repository and that other ConfigRepos have requested.
pub(super) fn hand_over<E: Display>(
    desired: &Desired,
    input: &SyncInput<'_>,
    live: &impl Fn(&ObjectRef) -> Result<Option<Arc<Object>>, E>,
) -> Vec<HandOver> {
    let stays = desired.ids();
    let left = input.requested.keys().filter(|id| !stays.contains(*id));
    let handed_over = left.filter_map(|id| match decide(input, id, live(&id.at(input.inventory.get(id)?))) {
        PruneDecision::HandOver(hand_over) => Some(hand_over),
        PruneDecision::Release
        | PruneDecision::Unknown
        | PruneDecision::Terminating(_)
        | PruneDecision::Delete(_) => None,
    });
    handed_over.collect()
}

/// Leaves objects that an application tracks to Argo CD, for a ConfigRepo in mode Observe. The plan contains the
/// objects that lose their marks, and the inventory without objects that have none. All other objects stay in
/// the inventory, so that the mode can change back.
pub fn release<E>(
    repo: &Key,
    inventory: &Inventory,
    live: impl Fn(&ObjectRef) -> Result<Option<Arc<Object>>, E>,
) -> SyncPlan<'static> {
    let mut plan = SyncPlan::default();
    for (id, version) in inventory {
        match live(&id.at(version)) {
            Ok(Some(live)) if is_marked(&live, repo) => {
                if argo::application(&live).is_some() {
                    let (target, uid) = (live.reference(), live.uid().to_owned());
                    plan.hand_over.push(HandOver { target, uid, to: None });
                }
            }
            Ok(_) => continue,
            Err(_) => {}
        }
        plan.inventory.insert(id.clone(), version.clone());
    }
    plan
}

/// Returns true if an annotation protects an object from deletion: ours, or one of Argo CD.
fn is_kept(input: &SyncInput<'_>, live: &Object) -> bool {
    let has = |name, value| argo::has_sync_option(live, name, value);
    let is_kept_by_option = match input.policy.is_repo_deleted {
        // No one can confirm deletions for a ConfigRepo that is being deleted.
        true => has("Delete", "false") || has("Delete", "confirm"),
        false => has("Prune", "false"),
    };
    is_kept_by_option || live.annotations().get(names::PRUNE_ANNOTATION) == Some(&"disabled")
}

fn decide<E>(input: &SyncInput<'_>, id: &ObjectId, live: Result<Option<Arc<Object>>, E>) -> PruneDecision {
    let Ok(live) = live else { return PruneDecision::Unknown };
    let Some(live) = live.filter(|live| is_marked(live, input.repo)) else { return PruneDecision::Release };
    let hand_over = |to: Option<&Key>| {
        let (target, uid) = (live.reference(), live.uid().to_owned());
        PruneDecision::HandOver(HandOver { target, uid, to: to.cloned() })
    };
    if let Some(to) = input.requested.get(id).filter(|_| !live.is_terminating()) {
        return hand_over(Some(to));
    }
    let is_kept = is_kept(input, &live);
    // A ConfigRepo that deletes itself or its namespace could not report the deletion.
    let is_repo = id.kind == "ConfigRepo" && id.group == names::GITOPS_GROUP && id.key == *input.repo;
    let is_its_namespace =
        id.kind == "Namespace" && id.group.is_empty() && id.key.name == input.repo.namespace;
    if !input.policy.prune || is_kept || is_repo || is_its_namespace {
        return PruneDecision::Release;
    }
    if live.is_terminating() {
        PruneDecision::Terminating(Terminating::new(&live))
    } else if argo::application(&live).is_some() {
        hand_over(None)
    } else {
        PruneDecision::Delete(live)
    }
}
