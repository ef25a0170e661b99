//! The record of the objects that a ConfigRepo owns on the hub.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Formatter};
use std::sync::Arc;

use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoInventory, InventoryEntry};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use object::{Gvk, Key, ObjectRef};
use sha2::{Digest as _, Sha256};

use super::DesiredObject;
use super::desired::short_hex;

/// The identity of an object on the hub, independent of its API version.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    /// The API group.
    pub group: String,
    pub kind: String,
    /// The namespace and name.
    pub key: Key,
}

/// The owned objects, each with the API version in which it was last applied.
pub type Inventory = BTreeMap<ObjectId, String>;

/// Returns the inventory of a ConfigRepo: the objects that its ConfigRepoInventories list or request, and the
/// objects that earlier versions recorded in its status.
pub fn recorded<'a>(
    repo: &ConfigRepo,
    inventories: impl IntoIterator<Item = &'a ConfigRepoInventory>,
) -> Inventory {
    let inline = repo.status.iter().flat_map(|status| &status.inventory).map(ObjectId::from_entry);
    let own = inventories.into_iter().filter(|part| belongs(part, repo));
    inline
        .chain(own.flat_map(|part| listed(&part.spec.requested).chain(listed(&part.spec.objects))))
        .collect()
}

/// Returns the objects that a ConfigRepo requests from other ConfigRepos.
pub fn requested<'a>(
    repo: &ConfigRepo,
    inventories: impl IntoIterator<Item = &'a ConfigRepoInventory>,
) -> Inventory {
    let own = inventories.into_iter().filter(|part| belongs(part, repo));
    own.flat_map(|part| listed(&part.spec.requested)).collect()
}

fn listed(objects: &BTreeMap<String, String>) -> impl Iterator<Item = (ObjectId, String)> {
    objects.iter().filter_map(|(path, version)| Some((ObjectId::from_path(path)?, version.clone())))
}

fn belongs(part: &ConfigRepoInventory, repo: &ConfigRepo) -> bool {
    let uid = repo.metadata.uid.as_deref().unwrap_or_default();
    part.metadata.namespace == repo.metadata.namespace && owner(part).is_some_and(|owner| owner.uid == uid)
}

/// Returns a short digest of the objects of an inventory, by their paths.
pub fn digest_of_paths<'a>(paths: impl Iterator<Item = &'a String>) -> String {
    short_hex(paths.fold(Sha256::new(), |hash, path| hash.chain_update(path).chain_update("\n")))
}

/// Returns the ConfigRepo that owns an inventory.
pub fn owner(part: &ConfigRepoInventory) -> Option<&OwnerReference> {
    part.metadata.owner_references.iter().flatten().find(|owner| owner.kind == "ConfigRepo")
}

/// Returns the kinds that must be read to plan a commit with an inventory.
pub fn kinds(desired: &[Arc<DesiredObject>], inventory: &Inventory) -> Vec<Gvk> {
    // Hooks are not read.
    let desired = desired.iter().filter(|desired| desired.hook().is_none());
    let desired =
        desired.map(|desired| &desired.reference.gvk).map(|gvk| [&gvk.group, &gvk.version, &gvk.kind]);
    let owned = inventory.iter().map(|(id, version)| [&id.group, version, &id.kind]);
    let kinds: BTreeSet<[&String; 3]> = desired.chain(owned).collect();
    let gvk = |[group, version, kind]: [&String; 3]| Gvk {
        group: group.clone(),
        version: version.clone(),
        kind: kind.clone(),
    };
    kinds.into_iter().map(gvk).collect()
}

impl ObjectId {
    /// Returns the identity of an object.
    pub fn of(object: &ObjectRef) -> Self {
        Self { group: object.gvk.group.clone(), kind: object.gvk.kind.clone(), key: object.key.clone() }
    }

    /// Returns the object reference in an API version.
    pub fn at(&self, version: &str) -> ObjectRef {
        let gvk = Gvk { group: self.group.clone(), version: version.to_owned(), kind: self.kind.clone() };
        ObjectRef { gvk, key: self.key.clone() }
    }

    /// Returns the path of an object in a ConfigRepoInventory: `group/Kind/namespace/name`.
    pub fn path(&self) -> String {
        format!("{}/{}/{}/{}", self.group, self.kind, self.key.namespace, self.key.name)
    }

    /// Parses the path of an object in a ConfigRepoInventory. No part of it contains a slash.
    pub fn from_path(path: &str) -> Option<Self> {
        let [group, kind, namespace, name] = path.split('/').collect::<Vec<_>>().try_into().ok()?;
        Some(Self { group: group.into(), kind: kind.into(), key: Key::namespaced(namespace, name) })
    }

    /// Returns the status entry.
    pub fn entry(&self, version: &str) -> InventoryEntry {
        InventoryEntry {
            group: self.group.clone(),
            version: version.to_owned(),
            kind: self.kind.clone(),
            namespace: self.key.namespace.clone(),
            name: self.key.name.clone(),
            ..InventoryEntry::default()
        }
    }

    /// Reads a status entry. Returns the object and its API version.
    pub fn from_entry(entry: &InventoryEntry) -> (Self, String) {
        let key = Key::namespaced(entry.namespace.clone(), entry.name.clone());
        (Self { group: entry.group.clone(), kind: entry.kind.clone(), key }, entry.version.clone())
    }
}

/// Prints `Kind.group namespace/name`.
impl Display for ObjectId {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        self.at("").fmt(f)
    }
}
