//! How much may be deleted without a person.

use sha2::{Digest, Sha256};

use super::Id;
use object::hex;

/// What may be deleted at once without approval: the larger of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Number of objects.
    pub objects: usize,
    /// Percentage of the inventory, rounded down.
    pub percent: usize,
}

impl Default for Budget {
    /// Five objects or five percent.
    fn default() -> Self {
        Self { objects: 5, percent: 5 }
    }
}

/// Deletions that wait for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The value that approves exactly these.
    pub approval: String,
    /// What would be deleted, in order.
    pub objects: Vec<Id>,
    /// Why it waits.
    pub why: String,
}

/// Kinds that take everything below them along, so that no number of them is small.
fn cascades(id: &Id) -> bool {
    matches!(
        (id.group.as_str(), id.kind.as_str()),
        ("", "Namespace")
            | ("apiextensions.k8s.io", "CustomResourceDefinition")
            | ("cluster.open-cluster-management.io", "ManagedCluster")
    )
}

/// Says why deletions must wait; `None` if they are within the budget, or if exactly these were approved.
///
/// `owned` is the size of the inventory, `wanted` the number of objects in the commit.
pub(super) fn hold(
    budget: Budget,
    doomed: &[Id],
    owned: usize,
    wanted: usize,
    approved: &str,
) -> Option<Held> {
    let allowed = budget.objects.max(owned.saturating_mul(budget.percent) / 100);
    let why = if doomed.is_empty() {
        return None;
    } else if wanted == 0 {
        "the repository holds no objects any more".to_owned()
    } else if doomed.len() > allowed {
        format!("{} deletions are over the budget of {allowed}", doomed.len())
    } else if let Some(id) = doomed.iter().find(|id| cascades(id)) {
        format!("deleting {id} deletes everything in it")
    } else {
        return None;
    };
    let hash = doomed.iter().fold(Sha256::new(), |hash, id| hash.chain_update(format!("{id}\n")));
    let approval = hex(hash.finalize().get(..8).unwrap_or_default());
    (approval != approved).then(|| Held { approval, objects: doomed.to_vec(), why })
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::Key;

    fn ids(n: usize, kind: &str) -> Vec<Id> {
        (0..n)
            .map(|i| Id {
                group: String::new(),
                kind: kind.into(),
                key: Key::namespaced("ns", format!("{i:04}")),
            })
            .collect()
    }

    fn held(doomed: usize, owned: usize) -> bool {
        hold(Budget::default(), &ids(doomed, "ConfigMap"), owned, 1, "").is_some()
    }

    #[test]
    fn more_than_the_larger_of_five_and_five_percent_waits() {
        assert!(
            !held(0, 0)
                && !held(5, 5)
                && held(6, 6)
                && held(6, 100)
                && !held(6, 120)
                && !held(10, 200)
                && held(11, 200)
        );
    }

    #[test]
    fn an_approval_is_for_exactly_what_was_shown() {
        let budget = Budget::default();
        let approval = hold(budget, &ids(6, "ConfigMap"), 6, 1, "").unwrap().approval;
        assert_eq!(hold(budget, &ids(6, "ConfigMap"), 6, 1, &approval), None);
        assert!(hold(budget, &ids(7, "ConfigMap"), 7, 1, &approval).is_some());
        assert!(hold(budget, &ids(6, "Secret"), 6, 1, &approval).is_some());
    }

    #[test]
    fn the_last_objects_and_what_cascades_always_wait() {
        assert!(hold(Budget::default(), &ids(1, "ConfigMap"), 1, 0, "").is_some());
        assert!(hold(Budget::default(), &ids(1, "Namespace"), 100, 99, "").is_some());
    }
}
