//! The record of what a repository owns on the hub.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};

use api::gitops::v1alpha1::InventoryEntry;
use object::{Gvk, Key, ObjectRef};

/// What tells objects of a hub apart; the API version does not.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// API group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace and name.
    pub key: Key,
}

/// Objects, and the API version each was last applied in.
pub type Inventory = BTreeMap<Id, String>;

impl Id {
    /// The identity of an object.
    pub fn of(object: &ObjectRef) -> Self {
        Self { group: object.gvk.group.clone(), kind: object.gvk.kind.clone(), key: object.key.clone() }
    }

    /// The object in an API version.
    pub fn at(&self, version: &str) -> ObjectRef {
        let gvk = Gvk { group: self.group.clone(), version: version.to_owned(), kind: self.kind.clone() };
        ObjectRef { gvk, key: self.key.clone() }
    }

    /// As a status records it.
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

    /// From what a status recorded.
    pub fn from_entry(entry: &InventoryEntry) -> (Self, String) {
        let key = Key::namespaced(entry.namespace.clone(), entry.name.clone());
        (Self { group: entry.group.clone(), kind: entry.kind.clone(), key }, entry.version.clone())
    }
}

/// `Kind.group namespace/name`.
impl Display for Id {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        self.at("").fmt(f)
    }
}
