//! The number of deletions that need no approval.
//!
//! The budget counts over a window of time, so that a series of small commits cannot empty a hub within it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use super::ObjectId;
use crate::plural::counted;
use api::names::PRUNE_ANNOTATION;
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
        let mut ends: Vec<Timestamp> = recent.values().map(|at| later(*at, self.window)).collect();
        ends.sort_unstable();
        let is_within = |left: usize| new + left <= self.allowed(owned + left);
        let mut ends = (0..ends.len()).rev().zip(ends);
        ends.find(|(left, _)| is_within(*left)).map(|(_, end)| end)
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
    /// How many clusters lose an add-on or a work with an object, for the objects with which more lose it
    /// than may.
    pub(super) uninstalls: &'a BTreeMap<ObjectId, usize>,
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
            | ("cluster.open-cluster-management.io", "ManagedCluster")
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

/// Returns the objects that count against the budget when these deletions are made, or why they must wait.
/// Those that exactly these deletions are approved for do not count.
///
/// # Errors
/// They must wait.
pub(super) fn spend(
    budget: Budget,
    deletions: &Deletions<'_>,
    approved: &str,
) -> Result<BTreeSet<ObjectId>, DeletionHold> {
    let Deletions { objects, owned, recent, desired, uninstalls, config_repos, confirm } = *deletions;
    if objects.is_empty() {
        return Ok(BTreeSet::new());
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
    } else if let Some((id, clusters)) = objects.keys().find_map(|id| uninstalls.get_key_value(id)) {
        format!(
            "deleting {id} removes what it installs from {}, more than may lose it at once",
            counted(clusters, "cluster")
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
        return Ok(if is_limited { new } else { BTreeSet::new() });
    };
    // Objects that are created again have other uids, so their deletion needs another approval.
    let hash =
        objects.iter().fold(Sha256::new(), |hash, (id, uid)| hash.chain_update(format!("{id} {uid}\n")));
    let approval = hex(hash.finalize().get(..8).unwrap_or_default());
    if approval == approved {
        return Ok(BTreeSet::new());
    }
    Err(DeletionHold { approval, objects: objects.keys().cloned().collect(), why, until })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(n: usize, kind: &str) -> BTreeMap<ObjectId, String> {
        (0..n).map(|i| (id(kind, &format!("{i:04}")), format!("u{i}"))).collect()
    }

    /// Returns why deletions wait, of `owned` objects and after `recent` ones at the minutes given.
    fn spend_after(
        recent: &[(&str, i64)],
        objects: &BTreeMap<ObjectId, String>,
        owned: usize,
        approved: &str,
    ) -> Result<usize, DeletionHold> {
        let kept = id("ConfigMap", "kept");
        let deletions = Deletions {
            objects,
            owned,
            recent: &recent.iter().map(|(name, minute)| (id("ConfigMap", name), at(*minute))).collect(),
            desired: &BTreeSet::from([&kept]),
            uninstalls: &BTreeMap::new(),
            config_repos: &BTreeMap::new(),
            confirm: &[],
        };
        spend(Budget::default(), &deletions, approved).map(|spent| spent.len())
    }

    fn held(objects: &BTreeMap<ObjectId, String>, owned: usize, approved: &str) -> Option<DeletionHold> {
        spend_after(&[], objects, owned, approved).err()
    }

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    fn id(kind: &str, name: &str) -> ObjectId {
        ObjectId { group: String::new(), kind: kind.into(), key: Key::namespaced("ns", name) }
    }

    #[test]
    fn deletions_count_over_the_window_and_not_one_by_one() {
        let three = [("a", 0), ("b", 5), ("c", 6)];
        assert_eq!(spend_after(&three, &ids(2, "ConfigMap"), 50, ""), Ok(2), "they are recorded before");
        let hold = spend_after(&three, &ids(3, "ConfigMap"), 50, "").unwrap_err();
        assert_eq!(hold.why, "3 deletions, after 3 others within 1h, are over the budget of 5");
        assert_eq!(hold.until, Some(at(60)), "the first of the window ends then");
        let later = spend_after(&three, &ids(4, "ConfigMap"), 50, "").unwrap_err();
        assert_eq!(later.until, Some(at(65)));
        assert_eq!(spend_after(&three, &ids(3, "ConfigMap"), 50, &hold.approval), Ok(0), "approved");
        let alone = spend_after(&three, &ids(6, "ConfigMap"), 50, "").unwrap_err();
        assert_eq!((alone.why.as_str(), alone.until), ("6 deletions are over the budget of 5", None));
        let last = spend_after(&three, &ids(2, "ConfigMap"), 2, "");
        assert_eq!(last, Ok(0), "the budget is for everything that there was");
    }

    #[test]
    fn a_deletion_that_was_recorded_and_not_made_is_made_and_counts_once() {
        let recorded: Vec<String> = (0..5).map(|i| format!("{i:04}")).collect();
        let recorded: Vec<(&str, i64)> = recorded.iter().map(|name| (name.as_str(), 0)).collect();
        assert_eq!(spend_after(&recorded, &ids(5, "ConfigMap"), 50, ""), Ok(0));
        assert!(spend_after(&recorded, &ids(6, "ConfigMap"), 50, "").is_err());
    }

    #[test]
    fn a_generated_object_with_another_hash_is_replaced_and_counts_as_no_deletion() {
        let names = |hash: &str| -> Vec<ObjectId> {
            (0..9).map(|i| id("ConfigMap", &format!("c{i}-{hash}"))).collect()
        };
        let check = |old: &str, new: &str| {
            let objects = names(old).into_iter().map(|id| (id, String::new())).collect();
            let new = names(new);
            let deletions = Deletions {
                objects: &objects,
                owned: 9,
                recent: &Recent::new(),
                desired: &new.iter().collect(),
                uninstalls: &BTreeMap::new(),
                config_repos: &BTreeMap::new(),
                confirm: &[],
            };
            spend(Budget { objects: 1, percent: 1, ..Budget::default() }, &deletions, "").is_ok()
        };
        assert!(check("2456789bcd", "fghkmt2456"));
        assert!(!check("2456789bcd", "other"), "they are gone");
        assert!(!check("v1", "v2"), "that is no hash");
    }

    #[test]
    fn a_generated_object_replaces_one_other() {
        let hashes = ["2456789bcd", "fghkmt2456", "bcdfghkmt2"];
        let all = hashes.map(|hash| id("ConfigMap", &format!("c-{hash}")));
        let (new, old) = all.split_last().unwrap();
        assert_eq!(replaced(old.iter(), &BTreeSet::from([new])).len(), 1);
    }

    #[test]
    fn a_time_ahead_of_the_clock_counts_from_now_on() {
        let recent = Recent::from([(id("ConfigMap", "a"), at(600)), (id("ConfigMap", "b"), at(-60))]);
        let left = Budget::default().within_window(&recent, at(0));
        assert_eq!(left, Recent::from([(id("ConfigMap", "a"), Timestamp::from_second(1).unwrap())]));
    }

    #[test]
    fn a_wait_ends_when_the_budget_of_what_is_left_then_allows_it() {
        let names: Vec<String> = (0..30).map(|i| format!("old{i}")).collect();
        let thirty: Vec<(&str, i64)> = names.iter().map(|name| (name.as_str(), 0)).collect();
        let hold = spend_after(&thirty, &ids(50, "ConfigMap"), 970, "").unwrap_err();
        assert_eq!(hold.until, None, "5% of 970 is 48");
        let hold = spend_after(&thirty, &ids(48, "ConfigMap"), 970, "").unwrap_err();
        assert_eq!(hold.until, Some(at(60)));
        // Twenty of them count ten minutes longer, and so does what was there before them: 5% of 800 is 40.
        let forty: Vec<(String, i64)> = (0..40).map(|i| (format!("old{i}"), i / 20 * 10)).collect();
        let forty: Vec<(&str, i64)> = forty.iter().map(|(name, minute)| (name.as_str(), *minute)).collect();
        let hold = spend_after(&forty, &ids(20, "ConfigMap"), 780, "").unwrap_err();
        assert_eq!(hold.until, Some(at(60)));
    }

    #[test]
    fn what_was_deleted_within_the_window_belongs_to_the_size_of_the_inventory() {
        assert!(spend_after(&[("x", 0), ("y", 0)], &ids(4, "ConfigMap"), 118, "").is_ok(), "5% of 120 is 6");
        assert!(spend_after(&[("x", 0), ("y", 0)], &ids(4, "ConfigMap"), 117, "").is_err());
    }

    #[test]
    fn only_the_name_of_a_generated_config_map_or_secret_has_a_hash() {
        let of = |group: &str, kind: &str, name: &str| {
            let of = ObjectId { group: group.into(), ..id(kind, name) };
            generated(&of).map(str::to_owned)
        };
        assert_eq!(of("", "ConfigMap", "c-2456789bcd").as_deref(), Some("c"));
        assert_eq!(of("", "Secret", "c-2456789bcd").as_deref(), Some("c"));
        for (group, kind, name) in [
            ("", "Service", "c-2456789bcd"),
            ("apps", "ConfigMap", "c-2456789bcd"),
            ("", "ConfigMap", "c-2456789bc"),
            ("", "ConfigMap", "c-2456789bca"),
        ] {
            assert_eq!(of(group, kind, name), None, "{group} {kind} {name}");
        }
    }

    #[test]
    fn more_than_the_larger_of_five_and_five_percent_waits() {
        let cases = [
            (0, 0, false),
            (5, 5, false),
            (6, 6, true),
            (6, 100, true),
            (6, 120, false),
            (10, 200, false),
            (11, 200, true),
        ];
        for (deletions, owned, expected) in cases {
            let is_held = held(&ids(deletions, "ConfigMap"), owned, "").is_some();
            assert_eq!(is_held, expected, "{deletions} of {owned}");
        }
    }

    #[test]
    fn a_budget_allows_what_the_status_can_record_and_no_more() {
        let large = Budget { objects: 5_000, ..Budget::default() };
        for (number, is_allowed) in [(RECORDED, true), (RECORDED + 1, false)] {
            let kept = id("ConfigMap", "kept");
            let deletions = Deletions {
                objects: &ids(number, "ConfigMap"),
                owned: 10_000,
                recent: &Recent::new(),
                desired: &BTreeSet::from([&kept]),
                uninstalls: &BTreeMap::new(),
                config_repos: &BTreeMap::new(),
                confirm: &[],
            };
            assert_eq!(spend(large, &deletions, "").is_ok(), is_allowed, "{number}");
        }
    }

    #[test]
    fn an_approval_is_for_exactly_the_deletions_that_were_shown() {
        let approval = held(&ids(6, "ConfigMap"), 6, "").unwrap().approval;
        assert_eq!(held(&ids(6, "ConfigMap"), 6, &approval), None);
        assert!(held(&ids(7, "ConfigMap"), 7, &approval).is_some());
        assert!(held(&ids(6, "Secret"), 6, &approval).is_some());
        let again = ids(6, "ConfigMap").into_keys().map(|id| (id, "new".to_owned())).collect();
        assert!(held(&again, 6, &approval).is_some(), "they were created again");
    }

    #[test]
    fn the_last_objects_and_cascading_deletions_always_wait() {
        let last = Deletions {
            objects: &ids(1, "ConfigMap"),
            owned: 1,
            recent: &Recent::new(),
            desired: &BTreeSet::new(),
            uninstalls: &BTreeMap::new(),
            config_repos: &BTreeMap::new(),
            confirm: &[],
        };
        assert!(spend(Budget::default(), &last, "").is_err());
        assert!(held(&ids(1, "Namespace"), 100, "").is_some());
    }
}
