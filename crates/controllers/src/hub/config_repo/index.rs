//! The index of the ConfigRepo controller. Without it, each plan would search all inventories and compare all
//! objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::multimap;
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoInventory};
use engine::health::ObjectHealth;
use engine::sync::{self, Comparisons, Desired, ObjectId};
use object::{Key, Object};
use reconcile::{Change, Index, Observes, Query, Read, View};

/// The owners of objects, and the comparisons of earlier plans.
#[derive(Default)]
pub(super) struct RepoIndex {
    /// The inventories that list an object, by the object's path.
    listed: BTreeMap<String, BTreeSet<Claim>>,
    comparisons: BTreeMap<Key, Comparisons>,
    /// The commits that ConfigRepos in mode Observe compare with the hub.
    observed: BTreeMap<Key, Arc<Desired>>,
    /// The ConfigRepos that observe an object.
    observers: BTreeMap<ObjectId, BTreeSet<Key>>,
}

/// An inventory that lists an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    inventory: Key,
    /// The uid of the ConfigRepo to which the inventory belongs.
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
                let repo = Key::of(&**old);
                index.comparisons.remove(&repo);
                index.observe(&repo, None);
            }
            Vec::new()
        });
        observes.on_observed(|index, change| match is_relevant(change) {
            true => index.observers_of(change),
            false => Vec::new(),
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

    /// Records the commit that a ConfigRepo compares with the hub; `None` if it observes none.
    pub(super) fn observe(&mut self, repo: &Key, desired: Option<&Arc<Desired>>) {
        let before = self.observed.get(repo);
        if before.map(Arc::as_ptr) == desired.map(Arc::as_ptr) {
            return;
        }
        for id in self.observed.remove(repo).iter().flat_map(|before| before.ids()) {
            multimap::remove(&mut self.observers, &id, repo);
        }
        if let Some(desired) = desired {
            for id in desired.ids() {
                self.observers.entry(id).or_default().insert(repo.clone());
            }
            self.observed.insert(repo.clone(), Arc::clone(desired));
        }
    }

    /// Returns the ConfigRepos that observe a changed object.
    pub(super) fn observers_of(&self, change: &Change<Object>) -> Vec<Key> {
        let id = change.sides().next().map(|object| ObjectId::of(&object.reference()));
        id.and_then(|id| self.observers.get(&id)).into_iter().flatten().cloned().collect()
    }

    /// Takes the comparisons of the last plan for a ConfigRepo. If a plan ends early, they are lost.
    pub(super) fn take_comparisons(&mut self, repo: &Key) -> Comparisons {
        self.comparisons.remove(repo).unwrap_or_default()
    }

    /// Stores the comparisons of a plan.
    pub(super) fn keep_comparisons(&mut self, repo: &Key, comparisons: Comparisons) {
        self.comparisons.insert(repo.clone(), comparisons);
    }
}

/// Returns false if only the status of an object changed and its health is the same.
pub(super) fn is_relevant(change: &Change<Object>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    !content(old).eq(content(new))
        || old.annotations() != new.annotations()
        || old.labels() != new.labels()
        || ObjectHealth::of(old) != ObjectHealth::of(new)
}

fn content(object: &Object) -> impl Iterator<Item = (&String, &serde_json::Value)> {
    object.0.iter().filter(|(field, _)| !matches!(field.as_str(), "metadata" | "status"))
}
