//! The number of deletions that need no approval.
//!
//! The budget counts over a window of time, so that a series of small commits cannot empty a hub within it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use super::{ObjectId, Uninstall};
use crate::plural::counted;
use crate::rollout::removal::first_within;
use api::names::{CLUSTER_GROUP, PRUNE_ANNOTATION};
use object::duration::later;
use object::{Key, hex};

/// Limit of the deletions of a window that are recorded by name: 45 kB of a status with names of 60 bytes.
const RECORDED: usize = 300;

/// The characters and the length of the hash that kustomize adds to the names of generated objects.
const HASH: (&str, usize) = ("2456789bcdfghkmt", 10);

/// The number of objects that may be deleted within a window without approval: the larger of the two limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Number of objects.
    pub objects: usize,
    /// Percentage of the inventory, rounded down.
    pub percent: usize,
    /// How long a deletion counts; without a window, each commit counts alone.
    pub window: SignedDuration,
}

impl Default for Budget {
    /// Returns five objects or five percent within an hour.
    fn default() -> Self {
        Self { objects: 5, percent: 5, window: SignedDuration::from_hours(1) }
    }
}

impl Budget {
    /// Needs an approval for every deletion.
    pub(super) const NONE: Self = Self { objects: 0, percent: 0, window: SignedDuration::ZERO };

    /// Returns how many of `total` objects may be deleted within the window.
    fn allowed(self, total: usize) -> usize {
        let allowed = self.objects.max(total.saturating_mul(self.percent) / 100);
        if allowed >= total { allowed } else { allowed.min(RECORDED) }
    }

    /// Returns the deletions that still count. A time in the future, which a clock that was ahead wrote,
    /// becomes the present.
    pub(super) fn within_window(self, recent: &Recent, now: Timestamp) -> Recent {
        let counts = recent.iter().filter(|(_, at)| self.counts(**at, now));
        counts.map(|(id, at)| (id.clone(), (*at).min(recorded(now)))).collect()
    }

    /// Returns whether a deletion of that time counts.
    pub(super) fn counts(self, at: Timestamp, now: Timestamp) -> bool {
        later(at, self.window) > now
    }

    /// Returns when `new` deletions after those of `recent` are within the budget, if no more follow; `None`
    /// if that many never are. The inventory has `owned` objects.
    fn until(self, new: usize, recent: &Recent, owned: usize) -> Option<Timestamp> {
        let ends = recent.values().map(|at| later(*at, self.window));
        first_within(ends, |left| new + left <= self.allowed(owned + left))
    }
}

/// Returns the time with which a deletion is recorded. The record has whole seconds, and the window must not
/// end early.
pub(super) fn recorded(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second().saturating_add(1)).unwrap_or(now)
}

/// Deleted objects, and when.
pub type Recent = BTreeMap<ObjectId, Timestamp>;

/// Deletions that wait for approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletionHold {
    /// The value that approves exactly these deletions.
    pub approval: String,
    /// The objects that would be deleted, in order.
    pub objects: Vec<ObjectId>,
    /// Says why approval is needed.
    pub why: String,
    /// When they are within the budget; `None` if only an approval allows them.
    pub until: Option<Timestamp>,
}

/// Deletions and the sizes that the budget compares them with.
pub(super) struct Deletions<'a> {
    /// The objects to delete, with the uids of the live ones. The uid is empty if the kind was not read.
    pub(super) objects: &'a BTreeMap<ObjectId, String>,
    /// Number of objects in the inventory.
    pub(super) owned: usize,
    /// The objects that were deleted within the window without an approval and are not wanted again.
    pub(super) recent: &'a Recent,
    /// The objects of the commit.
    pub(super) desired: &'a BTreeSet<&'a ObjectId>,
    /// The objects with which more clusters lose an add-on or a work than may.
    pub(super) uninstalls: &'a BTreeMap<ObjectId, Uninstall>,
    /// The ConfigRepos that delete their objects when they are deleted, and how many these are.
    pub(super) config_repos: &'a BTreeMap<ObjectId, i32>,
    /// The objects whose annotation asks for an approval.
    pub(super) confirm: &'a [ObjectId],
}

/// Returns whether deleting an object deletes other objects with it. Such deletions always need approval.
pub(super) fn cascades(id: &ObjectId) -> bool {
    matches!(
        (id.group.as_str(), id.kind.as_str()),
        ("", "Namespace")
            | ("apiextensions.k8s.io", "CustomResourceDefinition")
            | (CLUSTER_GROUP, "ManagedCluster")
    )
}

/// Returns the objects that the commit has with another hash. Each of its objects replaces one.
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

/// Returns the name of a generated object up to its hash.
fn generated(id: &ObjectId) -> Option<&str> {
    let (base, hash) = id.key.name.rsplit_once('-')?;
    let is_hash = hash.len() == HASH.1 && hash.chars().all(|it| HASH.0.contains(it));
    let is_kind = id.group.is_empty() && matches!(id.kind.as_str(), "ConfigMap" | "Secret");
    (is_hash && is_kind).then_some(base)
}

/// Why deletions may be made.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Allowed {
    /// They are within the budget, against which these objects count.
    WithinBudget(BTreeSet<ObjectId>),
    /// A person approved them.
    Approved,
}

/// Decides whether deletions may be made; `approved` approves exactly those that have that value.
///
/// # Errors
/// They must wait.
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
    // A deletion that was recorded and not made is made now.
    let sum = new.len() + recent.len();
    let mut until = None;
    let why = if desired.is_empty() {
        "the repository holds no objects any more".to_owned()
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
            others => format!(", after {} that lost it lately", counted(others, "other")),
        };
        format!(
            "deleting {id} removes what it installs from {clusters}{after}, more than may lose it at once"
        )
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
    // Objects that are created again have other uids, so their deletion needs another approval.
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
