//! The inventory of a ConfigRepo, which is stored in separate objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};

use super::index::RepoIndex;
use super::status;
use api::gitops::v1alpha1::{
    ConfigRepo, ConfigRepoInventory, ConfigRepoInventorySpec, ConfigRepoMode, DeletionPolicy,
};
use api::names::CONFIG_REPO_FINALIZER;
use engine::sync::{self, Claimant, Desired, Inventory, ObjectId};
use object::{Key, Metadata as _, Object};
use reconcile::{Action, Change, Query, Read, View};

/// Maximum number of objects per ConfigRepoInventory. With names, kinds and groups of maximum length they take 650
/// kB, and etcd's limit is 1.5 MiB. The definition has the same limit.
const MAX_OBJECTS: usize = 1000;
/// Maximum length of the ConfigRepo name at the start of inventory names, which are limited to 253 bytes.
const MAX_PREFIX: usize = 230;

/// The inventories of a ConfigRepo.
pub(super) struct Recorded {
    /// The inventories of this ConfigRepo.
    parts: Vec<Arc<ConfigRepoInventory>>,
    /// The inventories of an earlier ConfigRepo with the same name.
    former: Vec<Arc<ConfigRepoInventory>>,
    /// The names in use in the namespace.
    names: BTreeSet<String>,
    /// The owned and the requested objects. A requested object may have been handed over and then removed from the
    /// repository; it is deleted too.
    pub(super) objects: Inventory,
    /// The owned objects.
    owned: Inventory,
    /// The requested objects. Some may already have been handed over to this ConfigRepo.
    requested: Inventory,
}

impl Recorded {
    /// Reads the inventories of a ConfigRepo.
    ///
    /// # Errors
    /// Fails if the inventories have not been read.
    pub(super) fn of(repo: &ConfigRepo, view: &impl View) -> Read<Self> {
        let all = view.list::<ConfigRepoInventory>(Query::namespace(&Key::of(repo).namespace))?;
        let names = all.iter().map(|part| Key::of(&**part).name).collect();
        let objects = sync::recorded(repo, all.iter().map(|part| &**part));
        let requested = sync::requested(repo, all.iter().map(|part| &**part));
        let mut owned = objects.clone();
        owned.retain(|id, _| !requested.contains_key(id));
        let named = all.into_iter().filter(|part| {
            let owner = sync::owner(part).map(|owner| owner.name.as_str());
            owner == repo.metadata.name.as_deref()
        });
        let is_own = |part: &Arc<ConfigRepoInventory>| {
            sync::owner(part).map(|owner| owner.uid.as_str()) == repo.metadata.uid.as_deref()
        };
        let (parts, former) = named.partition(is_own);
        Ok(Self { parts, former, names, objects, owned, requested })
    }

    /// Plans the writes that record an inventory. All of them must succeed before an object is created.
    pub(super) fn record(&self, repo: &ConfigRepo, wanted: &Inventory, requests: &Inventory) -> Vec<Action> {
        let (ending, kept): (Vec<_>, Vec<_>) =
            self.parts.iter().partition(|part| part.metadata.deletion_timestamp.is_some());
        let mut objects = Entries::of(wanted, kept.iter().map(|part| &part.spec.objects));
        // The writes are independent, so a request stays until an inventory lists its object.
        let unlisted = self.requested.iter().filter(|(id, _)| objects.missing.contains_key(&id.path()));
        let requests = requests.iter().chain(unlisted).map(|(id, version)| (id.clone(), version.clone()));
        let mut requested = Entries::of(&requests.collect(), kept.iter().map(|part| &part.spec.requested));
        let mut actions = Vec::new();
        if objects.missing.is_empty() && requested.missing.is_empty() {
            // The other inventories list every wanted object.
            actions.extend(ending.iter().filter_map(|part| release(part)));
        }
        actions.extend(self.former.iter().filter_map(|part| release(part)));
        for part in kept {
            let objects = objects.change(&part.spec.objects);
            actions.extend(patch(repo, part, objects, requested.change(&part.spec.requested)));
        }
        let mut names = self.names.clone();
        while !objects.missing.is_empty() || !requested.missing.is_empty() {
            let (objects, requested) = (objects.take(MAX_OBJECTS), requested.take(MAX_OBJECTS));
            let spec = ConfigRepoInventorySpec { objects, requested, ..ConfigRepoInventorySpec::default() };
            let part = part(repo, spec, &names);
            names.insert(Key::of(&part).name);
            actions.push(Action::create(Object::from_typed(&part)));
        }
        actions
    }

    /// Plans the writes that request objects of a refused commit, in addition to earlier requests.
    pub(super) fn request(&self, repo: &ConfigRepo, objects: &Inventory) -> Vec<Action> {
        let mut requests = self.requested.clone();
        requests.extend(objects.iter().map(|(id, version)| (id.clone(), version.clone())));
        self.record(repo, &self.owned, &requests)
    }

    /// Plans the writes that remove the finalizers, so that the inventories are deleted with the ConfigRepo.
    pub(super) fn release(&self) -> Vec<Action> {
        self.parts.iter().chain(&self.former).filter_map(|part| release(part)).collect()
    }
}

/// Plans the writes that remove the finalizers from the inventories of a deleted ConfigRepo.
///
/// # Errors
/// Fails if the inventories have not been read.
pub(super) fn release_former(key: &Key, view: &impl View) -> Read<Vec<Action>> {
    let all = view.list::<ConfigRepoInventory>(Query::namespace(&key.namespace))?;
    let former = all.iter().filter(|part| sync::owner(part).is_some_and(|owner| owner.name == key.name));
    Ok(former.filter_map(|part| release(part)).collect())
}

/// The entries that the inventories of a ConfigRepo should have, and the ones that no inventory has yet. An entry
/// stays in its inventory, so that the writes are independent.
struct Entries {
    wanted: BTreeMap<String, String>,
    missing: BTreeMap<String, String>,
}

impl Entries {
    fn of<'a>(wanted: &Inventory, listed: impl Iterator<Item = &'a BTreeMap<String, String>>) -> Self {
        let wanted: BTreeMap<_, _> = wanted.iter().map(|(id, v)| (id.path(), v.clone())).collect();
        let mut missing = wanted.clone();
        for path in listed.flat_map(BTreeMap::keys) {
            missing.remove(path);
        }
        Self { wanted, missing }
    }

    /// Takes the first missing entries.
    fn take(&mut self, most: usize) -> BTreeMap<String, String> {
        std::iter::from_fn(|| self.missing.pop_first()).take(most).collect()
    }

    /// Returns the change for an inventory with the listed entries.
    fn change(&mut self, listed: &BTreeMap<String, String>) -> Map<String, Value> {
        let changed = listed.iter().filter_map(|(path, version)| match self.wanted.get(path) {
            Some(wanted) if wanted == version => None,
            wanted => Some((path.clone(), json!(wanted))),
        });
        let mut changed: Map<String, Value> = changed.collect();
        let left = listed.len() - changed.values().filter(|value| value.is_null()).count();
        let added = self.take(MAX_OBJECTS.saturating_sub(left));
        changed.extend(added.into_iter().map(|(path, version)| (path, Value::from(version))));
        changed
    }
}

fn release(part: &ConfigRepoInventory) -> Option<Action> {
    Action::remove_finalizers(part, &[CONFIG_REPO_FINALIZER])
}

/// Returns the finalizers of the inventories of a ConfigRepo. If the objects are deleted with the ConfigRepo, its
/// inventories must survive a namespace deletion and a foreground deletion.
fn finalizers(repo: &ConfigRepo) -> &'static [&'static str] {
    match repo.spec.deletion_policy {
        DeletionPolicy::Delete => &[CONFIG_REPO_FINALIZER],
        DeletionPolicy::Orphan | DeletionPolicy::Other(_) => &[],
    }
}

/// Patches the objects and requests of an inventory, and its finalizers if the deletion policy changed.
fn patch(
    repo: &ConfigRepo,
    part: &ConfigRepoInventory,
    objects: Map<String, Value>,
    requested: Map<String, Value>,
) -> Option<Action> {
    let wanted = finalizers(repo);
    let mut patch = Map::new();
    if part.has_finalizer(CONFIG_REPO_FINALIZER) == wanted.is_empty() {
        let held = part.metadata.finalizers.iter().flatten().map(String::as_str);
        let others = held.filter(|held| *held != CONFIG_REPO_FINALIZER);
        let finalizers: Vec<&str> = others.chain(wanted.iter().copied()).collect();
        patch.insert("metadata".into(), json!({"finalizers": finalizers}));
    }
    let mut spec = Map::new();
    for (field, changed) in [("objects", objects), ("requested", requested)] {
        if !changed.is_empty() {
            spec.insert(field.into(), Value::Object(changed));
        }
    }
    if !spec.is_empty() {
        patch.insert("spec".into(), Value::Object(spec));
    }
    (!patch.is_empty()).then(|| Action::patch(part, patch))
}

/// Returns a new inventory, named after its objects. If the response to its creation is lost, a second attempt
/// with other objects therefore uses another name, and does not mistake the first inventory for its own.
fn part(repo: &ConfigRepo, spec: ConfigRepoInventorySpec, names: &BTreeSet<String>) -> ConfigRepoInventory {
    let Key { namespace, name } = Key::of(repo);
    // After a dot, a name must continue with a letter or digit.
    let prefix = name.get(..MAX_PREFIX).unwrap_or(&name).trim_end_matches('.');
    let digest = sync::digest_of_paths(spec.objects.keys().chain(spec.requested.keys()));
    let candidate = |attempt: usize| match attempt {
        0 => format!("{prefix}-{digest}"),
        attempt => format!("{prefix}-{digest}-{attempt}"),
    };
    let name_of_part =
        (0..=names.len()).map(candidate).find(|name| !names.contains(name)).unwrap_or_default();
    let finalizers: Vec<String> = finalizers(repo).iter().map(|it| (*it).to_owned()).collect();
    ConfigRepoInventory {
        metadata: ObjectMeta {
            namespace: Some(namespace),
            name: Some(name_of_part),
            owner_references: Some(vec![repo.controller_reference()]),
            finalizers: Some(finalizers).filter(|finalizers| !finalizers.is_empty()),
            ..ObjectMeta::default()
        },
        spec,
        ..ConfigRepoInventory::default()
    }
}

/// Returns the objects of a commit that the inventories of other ConfigRepos list. A ConfigRepo in mode Observe
/// owns nothing.
///
/// # Errors
/// Fails if the ConfigRepos or their inventories have not been read.
pub(super) fn claimed(
    repo: &Key,
    desired: &Desired,
    view: &impl View,
) -> Read<BTreeMap<ObjectId, Vec<Claimant>>> {
    let others = view.list::<ConfigRepo>(Query::ALL)?;
    let applies =
        |other: &&Arc<ConfigRepo>| Key::of(&***other) != *repo && other.spec.mode != ConfigRepoMode::Observe;
    let others: BTreeMap<&str, &Arc<ConfigRepo>> =
        others.iter().filter(applies).map(|other| (other.uid(), other)).collect();
    let claimant =
        |other: &ConfigRepo| Claimant { repo: Key::of(other), is_forbidden: status::is_forbidden(other) };
    let mut claimed = BTreeMap::<_, Vec<_>>::new();
    for other in others.values() {
        for entry in other.status.iter().flat_map(|status| &status.inventory) {
            claimed.entry(ObjectId::from_entry(entry).0).or_default().push(claimant(other));
        }
    }
    view.index(|index: &mut RepoIndex| {
        for object in &desired.objects {
            let id = ObjectId::of(&object.reference);
            let claimants: Vec<_> =
                index.owners(&id.path()).filter_map(|uid| Some(claimant(others.get(uid)?))).collect();
            if !claimants.is_empty() {
                claimed.entry(id).or_default().extend(claimants);
            }
        }
    })?;
    Ok(claimed)
}

/// Wakes the owner of an inventory, and all ConfigRepos if the inventory releases an object that they may want or
/// requests one that they may own.
pub(super) fn wake<V: View>(change: &Change<ConfigRepoInventory>, view: &V) -> Vec<Key> {
    let listed = |side: &Option<Arc<ConfigRepoInventory>>| {
        side.iter().flat_map(|part| part.spec.objects.keys().cloned()).collect::<BTreeSet<_>>()
    };
    let requested = |side: &Option<Arc<ConfigRepoInventory>>| {
        side.as_ref().map(|part| part.spec.requested.clone()).unwrap_or_default()
    };
    let is_request = requested(&change.old) != requested(&change.new);
    if is_request || !listed(&change.old).is_subset(&listed(&change.new)) {
        return view.keys::<ConfigRepo>(Query::ALL);
    }
    let owners = change.sides().filter_map(|part| {
        Some(Key::namespaced(part.metadata.namespace.clone()?, sync::owner(part)?.name.clone()))
    });
    owners.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_names_of_repositories_give_inventories_valid_names() {
        for long in ["a".repeat(253), format!("{}.{}", "a".repeat(MAX_PREFIX - 1), "b".repeat(23))] {
            let metadata = ObjectMeta { name: Some(long), ..ObjectMeta::default() };
            let repo = ConfigRepo { metadata, ..ConfigRepo::default() };
            let part = part(&repo, ConfigRepoInventorySpec::default(), &BTreeSet::new());
            assert!(part.name().len() <= 253 && !part.name().contains(".-"), "{}", part.name());
        }
    }
}
