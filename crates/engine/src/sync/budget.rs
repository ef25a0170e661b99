//! The deletion budget: the number of deletions that need no approval.
//!
//! The budget counts over a time window, so that a series of small commits cannot empty a hub.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use super::{ObjectId, Uninstall};
use crate::plural::counted;
use crate::rollout::removal::first_within;
use api::names::{CLUSTER_GROUP, PRUNE_ANNOTATION};
use object::duration::later;
use object::{Key, hex};

/// The maximum number of deletions in a window that are recorded by name: 45 kB of status, with names of 60
/// bytes.
const RECORDED: usize = 300;

/// The alphabet and length of the hash that kustomize appends to the names of generated objects.
const HASH: (&str, usize) = ("2456789bcdfghkmt", 10);

/// The number of objects that may be deleted within a window without approval: the larger of the two limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The number of objects.
    pub objects: usize,
    /// The percentage of the inventory, rounded down.
    pub percent: usize,
    /// The length of the window. Without a window, each commit counts separately.
    pub window: SignedDuration,
}

impl Default for Budget {
    /// Returns the larger of five objects and five percent, within an hour.
    fn default() -> Self {
        Self { objects: 5, percent: 5, window: SignedDuration::from_hours(1) }
    }
}

impl Budget {
    /// A budget that requires an approval for every deletion.
    pub(super) const NONE: Self = Self { objects: 0, percent: 0, window: SignedDuration::ZERO };

    /// Returns the number of objects out of `total` that may be deleted within the window.
    fn allowed(self, total: usize) -> usize {
        let allowed = self.objects.max(total.saturating_mul(self.percent) / 100);
        if allowed >= total { allowed } else { allowed.min(RECORDED) }
    }

    /// Returns the deletions that still count. A time in the future, written by a clock that ran ahead, is
    /// replaced by the current time.
    pub(super) fn within_window(self, recent: &Recent, now: Timestamp) -> Recent {
        let counts = recent.iter().filter(|(_, at)| self.counts(**at, now));
        counts.map(|(id, at)| (id.clone(), (*at).min(recorded(now)))).collect()
    }

    /// Returns true if a deletion at that time still counts.
    pub(super) fn counts(self, at: Timestamp, now: Timestamp) -> bool {
        later(at, self.window) > now
    }

    /// Returns the time at which `new` deletions fit the budget if no others follow those in `recent`; `None` if
    /// they never fit. The inventory has `owned` objects.
    fn until(self, new: usize, recent: &Recent, owned: usize) -> Option<Timestamp> {
        let ends = recent.values().map(|at| later(*at, self.window));
        first_within(ends, |left| new + left <= self.allowed(owned + left))
    }
}

/// Returns the time to record for a deletion. It is rounded up to whole seconds, so that the window does not end
/// early.
pub(super) fn recorded(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second().saturating_add(1)).unwrap_or(now)
}

/// Deleted objects, and the times of their deletions.
pub type Recent = BTreeMap<ObjectId, Timestamp>;

/// Deletions that wait for an approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletionHold {
    /// The token that approves exactly these deletions.
    pub approval: String,
    /// The objects that would be deleted, in order.
    pub objects: Vec<ObjectId>,
    /// The reason that an approval is required.
    pub why: String,
    /// The time at which the deletions fit the budget; `None` if only an approval allows them.
    pub until: Option<Timestamp>,
}

/// Deletions, with everything that decides if they need an approval.
pub(super) struct Deletions<'a> {
    /// The objects to delete, with their live uids. The uid is empty if the kind was not read.
    pub(super) objects: &'a BTreeMap<ObjectId, String>,
    /// The number of objects in the inventory.
    pub(super) owned: usize,
    /// The objects that were deleted within the window without an approval and are not wanted again.
    pub(super) recent: &'a Recent,
    /// The objects of the commit.
    pub(super) desired: &'a BTreeSet<&'a ObjectId>,
    /// The objects whose deletion removes an add-on or work from more clusters than allowed.
    pub(super) uninstalls: &'a BTreeMap<ObjectId, Uninstall>,
    /// The ConfigRepos that delete their objects on deletion, and the number of these objects.
    pub(super) config_repos: &'a BTreeMap<ObjectId, i32>,
    /// The objects whose annotation requires an approval.
    pub(super) confirm: &'a [ObjectId],
}

/// Returns true if deleting an object deletes other objects. Such deletions always need an approval.
pub(super) fn cascades(id: &ObjectId) -> bool {
    matches!(
        (id.group.as_str(), id.kind.as_str()),
        ("", "Namespace")
            | ("apiextensions.k8s.io", "CustomResourceDefinition")
            | (CLUSTER_GROUP, "ManagedCluster")
    )
}

/// Returns the objects that the commit replaces by objects with another hash suffix. Each desired object
/// replaces at most one.
fn replaced<'a>(
    objects: impl Iterator<Item = &'a ObjectId>,
    desired: &BTreeSet<&ObjectId>,
) -> BTreeSet<&'a ObjectId> {
    let without_hash = |id: &ObjectId| {
        let key = Key::namespaced(id.key.namespace.clone(), generated(id)?);
        Some(ObjectId { key, ..id.clone() })
    };
    let mut by_name: BTreeMap<ObjectId, usize> = BTreeMap::new();
    for id in desired.iter().filter_map(|id| without_hash(id)) {
        *by_name.entry(id).or_default() += 1;
    }
    let takes_one = |id: &&ObjectId| {
        let left = without_hash(id).and_then(|name| by_name.get_mut(&name));
        left.is_some_and(|left| std::mem::replace(left, left.saturating_sub(1)) > 0)
    };
    objects.filter(takes_one).collect()
}

/// Returns the name of a generated object without its hash.
fn generated(id: &ObjectId) -> Option<&str> {
    let (base, hash) = id.key.name.rsplit_once('-')?;
    let is_hash = hash.len() == HASH.1 && hash.chars().all(|it| HASH.0.contains(it));
    let is_kind = id.group.is_empty() && matches!(id.kind.as_str(), "ConfigMap" | "Secret");
    (is_hash && is_kind).then_some(base)
}

/// The reason that deletions are allowed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Allowed {
    /// The deletions are within the budget, and these objects count against it.
    WithinBudget(BTreeSet<ObjectId>),
    /// A person approved the deletions.
    Approved,
}

/// Decides whether deletions are allowed; `approved` is the token of the approval.
///
/// # Errors
/// Returns the hold if the deletions must wait.
pub(super) fn spend(
    budget: Budget,
    deletions: &Deletions<'_>,
    approved: &str,
) -> Result<Allowed, DeletionHold> {
    let Deletions { objects, owned, recent, desired, uninstalls, config_repos, confirm } = *deletions;
    if objects.is_empty() {
        return Ok(Allowed::WithinBudget(BTreeSet::new()));
    }
    let total = owned + recent.keys().filter(|id| !objects.contains_key(*id)).count();
    let allowed = budget.allowed(total);
    let replaced = replaced(objects.keys(), desired);
    let is_new = |id: &&ObjectId| !recent.contains_key(*id) && !replaced.contains(*id);
    let new: BTreeSet<ObjectId> = objects.keys().filter(is_new).cloned().collect();
    // A deletion that is recorded but not done is done now.
    let sum = new.len() + recent.len();
    let mut until = None;
    let why = if desired.is_empty() {
        "the repository no longer contains any objects".to_owned()
    } else if new.len() > allowed {
        format!("{} deletions are over the budget of {allowed}", new.len())
    } else if let Some(id) = objects.keys().find(|id| cascades(id)) {
        format!("deleting {id} deletes everything in it")
    } else if let Some((id, owned)) = config_repos.first_key_value() {
        format!("deleting {id} deletes what it owns, {} now", counted(owned, "object"))
    } else if let Some((id, uninstall)) = objects.keys().find_map(|id| uninstalls.get_key_value(id)) {
        until = uninstall.until;
        let clusters = counted(uninstall.clusters, "cluster");
        let after = match uninstall.recent.len() {
            0 => String::new(),
            others => format!(", after {} that recently lost it", counted(others, "other")),
        };
        format!("deleting {id} uninstalls it from {clusters}{after}, more than allowed at once")
    } else if let Some(id) = confirm.first() {
        format!("the annotation {PRUNE_ANNOTATION} of {id} asks for an approval")
    } else if sum > allowed && !new.is_empty() {
        until = budget.until(new.len(), recent, owned);
        format!(
            "{}, after {} within {:#}, are over the budget of {allowed}",
            counted(new.len(), "deletion"),
            counted(recent.len(), "other"),
            budget.window
        )
    } else {
        let is_limited = allowed < total && budget.window.is_positive();
        return Ok(Allowed::WithinBudget(if is_limited { new } else { BTreeSet::new() }));
    };
    // Recreated objects have new uids, so their deletion needs a new approval.
    let hash =
        objects.iter().fold(Sha256::new(), |hash, (id, uid)| hash.chain_update(format!("{id} {uid}\n")));
    let approval = hex(hash.finalize().get(..8).unwrap_or_default());
    if approval == approved {
        return Ok(Allowed::Approved);
    }
    Err(DeletionHold { approval, objects: objects.keys().cloned().collect(), why, until })
}

#[cfg(test)]
mod tests;
