//! The number of deletions that need no approval.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::ObjectId;
use crate::plural::counted;
use api::names::PRUNE_ANNOTATION;
use object::hex;

/// The number of objects that may be deleted at once without approval: the larger of the two limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Number of objects.
    pub objects: usize,
    /// Percentage of the inventory, rounded down.
    pub percent: usize,
}

impl Default for Budget {
    /// Returns five objects or five percent.
    fn default() -> Self {
        Self { objects: 5, percent: 5 }
    }
}

/// Deletions that wait for approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletionHold {
    /// The value that approves exactly these deletions.
    pub approval: String,
    /// The objects that would be deleted, in order.
    pub objects: Vec<ObjectId>,
    /// Says why approval is needed.
    pub why: String,
}

/// Deletions and the sizes that the budget compares them with.
pub(super) struct Deletions<'a> {
    /// The objects to delete, with the uids of the live ones. The uid is empty if the kind was not read.
    pub(super) objects: &'a BTreeMap<ObjectId, String>,
    /// Number of objects in the inventory.
    pub(super) owned: usize,
    /// Number of objects in the commit.
    pub(super) desired: usize,
    /// How many clusters lose an add-on or a work with an object, for the objects with which more lose it
    /// than may.
    pub(super) uninstalls: &'a BTreeMap<ObjectId, usize>,
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

/// Says why deletions must wait; `None` if they are within the budget, or if exactly these were approved.
pub(super) fn hold(budget: Budget, deletions: &Deletions<'_>, approved: &str) -> Option<DeletionHold> {
    let Deletions { objects, owned, desired, uninstalls, confirm } = *deletions;
    let allowed = budget.objects.max(owned.saturating_mul(budget.percent) / 100);
    let why = if objects.is_empty() {
        return None;
    } else if desired == 0 {
        "the repository holds no objects any more".to_owned()
    } else if objects.len() > allowed {
        format!("{} deletions are over the budget of {allowed}", objects.len())
    } else if let Some(id) = objects.keys().find(|id| cascades(id)) {
        format!("deleting {id} deletes everything in it")
    } else if let Some((id, clusters)) = objects.keys().find_map(|id| uninstalls.get_key_value(id)) {
        format!(
            "deleting {id} removes what it installs from {}, more than may lose it at once",
            counted(clusters, "cluster")
        )
    } else if let Some(id) = confirm.first() {
        format!("the annotation {PRUNE_ANNOTATION} of {id} asks for an approval")
    } else {
        return None;
    };
    // Objects that are created again have other uids, so their deletion needs another approval.
    let hash =
        objects.iter().fold(Sha256::new(), |hash, (id, uid)| hash.chain_update(format!("{id} {uid}\n")));
    let approval = hex(hash.finalize().get(..8).unwrap_or_default());
    (approval != approved).then(|| DeletionHold { approval, objects: objects.keys().cloned().collect(), why })
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::Key;

    fn ids(n: usize, kind: &str) -> BTreeMap<ObjectId, String> {
        let id = |i| ObjectId {
            group: String::new(),
            kind: kind.into(),
            key: Key::namespaced("ns", format!("{i:04}")),
        };
        (0..n).map(|i| (id(i), format!("u{i}"))).collect()
    }

    fn held(objects: &BTreeMap<ObjectId, String>, owned: usize, approved: &str) -> Option<DeletionHold> {
        let uninstalls = &BTreeMap::new();
        hold(Budget::default(), &Deletions { objects, owned, desired: 1, uninstalls, confirm: &[] }, approved)
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
        let uninstalls = &BTreeMap::new();
        let last =
            Deletions { objects: &ids(1, "ConfigMap"), owned: 1, desired: 0, uninstalls, confirm: &[] };
        assert!(hold(Budget::default(), &last, "").is_some());
        let cascading =
            Deletions { objects: &ids(1, "Namespace"), owned: 100, desired: 99, uninstalls, confirm: &[] };
        assert!(hold(Budget::default(), &cascading, "").is_some());
    }
}
