//! What a work has on its cluster: named before it is created, forgotten when it is gone.

use std::collections::BTreeMap;

use super::manifest::Wanted;
use crate::applier::{self, Owner};
use api::work::v1::AppliedResource;
use object::{Gvk, Key, Object, ObjectRef};

/// Objects of a work by what they are and where; versions are left out, because an object is the same in all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inventory {
    /// The entries, as the applied work lists them.
    pub entries: Vec<AppliedResource>,
    /// The kind of each resource, by `resource.version.group`.
    pub kinds: BTreeMap<String, String>,
}

impl Inventory {
    /// The object of an entry; `None` where its kind is not known.
    pub fn object(&self, entry: &AppliedResource) -> Option<ObjectRef> {
        let kind = self.kinds.get(&kind_key(&entry.resource, &entry.version, &entry.group)).cloned()?;
        let gvk = Gvk { group: entry.group.clone(), version: entry.version.clone(), kind };
        Some(ObjectRef { gvk, key: Key::namespaced(&entry.namespace, &entry.name) })
    }

    /// Whether both list the same objects, with the same uids.
    pub fn lists_the_same(&self, entries: &[AppliedResource]) -> bool {
        self.entries == entries
    }
}

fn kind_key(resource: &str, version: &str, group: &str) -> String {
    format!("{resource}.{version}.{group}")
}

fn identity(entry: &AppliedResource) -> (&str, &str, &str, &str) {
    (&entry.group, &entry.resource, &entry.namespace, &entry.name)
}

/// The inventory before anything is written: what was in it, and what is wanted now; uids are filled in where the object is seen.
pub fn inventory<'a>(
    before: &Inventory,
    wanted: &[Wanted],
    live: impl Fn(&ObjectRef) -> Option<&'a Object>,
) -> Inventory {
    let mut kinds = before.kinds.clone();
    let mut entries: Vec<AppliedResource> = Vec::new();
    for manifest in wanted.iter().filter(|manifest| !manifest.reference.key.name.is_empty()) {
        let meta = &manifest.meta;
        let known = before
            .entries
            .iter()
            .find(|entry| identity(entry) == (&meta.group, &meta.resource, &meta.namespace, &meta.name));
        let uid = live(&manifest.reference).map(|object| object.uid().to_owned());
        kinds.insert(kind_key(&meta.resource, &meta.version, &meta.group), meta.kind.clone());
        entries.push(AppliedResource {
            group: meta.group.clone(),
            version: meta.version.clone(),
            resource: meta.resource.clone(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: uid.or_else(|| known.map(|entry| entry.uid.clone())).unwrap_or_default(),
            ..AppliedResource::default()
        });
    }
    let kept = |entry: &&AppliedResource| !entries.iter().any(|wanted| identity(wanted) == identity(entry));
    let left: Vec<_> = before.entries.iter().filter(kept).cloned().collect();
    entries.extend(left);
    entries.sort_by(|a, b| {
        let order = |e: &AppliedResource| {
            (e.group.clone(), e.version.clone(), e.resource.clone(), e.namespace.clone(), e.name.clone())
        };
        order(a).cmp(&order(b))
    });
    entries.dedup_by(|a, b| identity(a) == identity(b));
    kinds.retain(|key, _| entries.iter().any(|e| *key == kind_key(&e.resource, &e.version, &e.group)));
    Inventory { entries, kinds }
}

/// What becomes of an object that a work no longer wants.
#[derive(Clone, Debug, PartialEq)]
pub enum Removal {
    /// It is gone, or was never ours: the entry is dropped.
    Forget,
    /// It is being deleted already: the entry stays.
    Wait,
    /// It is deleted.
    Delete,
    /// It stays for another owner, or for good: only our reference is taken off.
    Release(Vec<serde_json::Value>),
}

/// Decides about an object that a work no longer wants. Ownership is the reference with our uid, nothing else.
pub fn removal(live: Option<&Object>, owner: &Owner, stays: bool) -> Removal {
    let Some(live) = live else { return Removal::Forget };
    if !applier::is_owned_by(live, owner) {
        return Removal::Forget;
    }
    if stays || applier::owners_of_kind(live, &owner.kind) > 1 {
        return Removal::Release(applier::without_owner(live, owner));
    }
    if live.is_terminating() { Removal::Wait } else { Removal::Delete }
}
