//! The record of the objects that a ConfigRepo owns on the hub.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Formatter};

use api::gitops::v1alpha1::InventoryEntry;
use object::{Gvk, Key, ObjectRef};

use super::DesiredObject;

/// Identifies an object of the hub; its API version does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    /// API group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace and name.
    pub key: Key,
}

/// Owned objects, each with the API version that it was last applied in.
pub type Inventory = BTreeMap<ObjectId, String>;

/// Lists the kinds that must be read to decide about a commit and an inventory.
pub fn kinds(desired: &[DesiredObject], inventory: &Inventory) -> Vec<Gvk> {
    let desired = desired.iter().map(|desired| desired.reference.gvk.clone());
    let owned = inventory.iter().map(|(id, version)| id.at(version).gvk);
    desired.chain(owned).collect::<BTreeSet<_>>().into_iter().collect()
}

impl ObjectId {
    /// Identifies an object.
    pub fn of(object: &ObjectRef) -> Self {
        Self { group: object.gvk.group.clone(), kind: object.gvk.kind.clone(), key: object.key.clone() }
    }

    /// The object in an API version.
    pub fn at(&self, version: &str) -> ObjectRef {
        let gvk = Gvk { group: self.group.clone(), version: version.to_owned(), kind: self.kind.clone() };
        ObjectRef { gvk, key: self.key.clone() }
    }

    /// Writes the entry of a status.
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

    /// Reads the entry of a status: the object and its API version.
    pub fn from_entry(entry: &InventoryEntry) -> (Self, String) {
        let key = Key::namespaced(entry.namespace.clone(), entry.name.clone());
        (Self { group: entry.group.clone(), kind: entry.kind.clone(), key }, entry.version.clone())
    }
}

/// `Kind.group namespace/name`.
impl Display for ObjectId {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        self.at("").fmt(f)
    }
}
