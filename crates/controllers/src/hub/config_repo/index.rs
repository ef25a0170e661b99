//! The index of the ConfigRepo controller. Without it, a plan would search all inventories and compare all
//! objects.

use std::collections::{BTreeMap, BTreeSet};

use crate::multimap;
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoInventory};
use engine::sync::{self, Comparisons};
use object::Key;
use reconcile::{Change, Index, Observes, Query, Read, View};

/// The owners of objects, and the comparisons of earlier plans.
#[derive(Default)]
pub(super) struct RepoIndex {
    /// The inventories that list an object, by its path.
    listed: BTreeMap<String, BTreeSet<Claim>>,
    /// The comparisons of each ConfigRepo.
    comparisons: BTreeMap<Key, Comparisons>,
}

/// An inventory that lists an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    inventory: Key,
    /// The uid of the ConfigRepo that the inventory belongs to.
    owner: String,
}

impl Index for RepoIndex {
    fn build(view: &impl View) -> Read<Self> {
        let mut index = Self::default();
        for part in view.list::<ConfigRepoInventory>(Query::ALL)? {
            index.list(&part);
        }
        Ok(index)
    }

    fn observes<O: Observes<Self>>(observes: &mut O) {
        observes.on::<ConfigRepoInventory>(|index, change| {
            if let Some(old) = &change.old {
                index.unlist(old);
            }
            if let Some(new) = &change.new {
                index.list(new);
            }
            Vec::new()
        });
        observes.on::<ConfigRepo>(|index, change| {
            if let Change { old: Some(old), new: None } = change {
                index.comparisons.remove(&Key::of(&**old));
            }
            Vec::new()
        });
    }
}

impl RepoIndex {
    fn claim(part: &ConfigRepoInventory) -> Option<Claim> {
        Some(Claim { inventory: Key::of(part), owner: sync::owner(part)?.uid.clone() })
    }

    fn list(&mut self, part: &ConfigRepoInventory) {
        let Some(claim) = Self::claim(part) else { return };
        for path in part.spec.objects.keys() {
            self.listed.entry(path.clone()).or_default().insert(claim.clone());
        }
    }

    fn unlist(&mut self, part: &ConfigRepoInventory) {
        let Some(claim) = Self::claim(part) else { return };
        for path in part.spec.objects.keys() {
            multimap::remove(&mut self.listed, path, &claim);
        }
    }

    /// Returns the uids of the ConfigRepos whose inventories list an object.
    pub(super) fn owners(&self, path: &str) -> impl Iterator<Item = &str> {
        self.listed.get(path).into_iter().flatten().map(|claim| claim.owner.as_str())
    }

    /// Takes the comparisons of the last plan for a ConfigRepo. A plan that ends early loses them.
    pub(super) fn take_comparisons(&mut self, repo: &Key) -> Comparisons {
        self.comparisons.remove(repo).unwrap_or_default()
    }

    /// Keeps the comparisons of a plan.
    pub(super) fn keep_comparisons(&mut self, repo: &Key, comparisons: Comparisons) {
        self.comparisons.insert(repo.clone(), comparisons);
    }
}
