//! The objects of a work on its spoke. An object is listed before it is created and until it is gone.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::manifest::Wanted;
use crate::applier;
use api::work::v1::AppliedResource;
use object::{Gvk, Key, Object, ObjectRef};

/// The objects of a work. The version of an entry does not tell objects apart, because an object is the same in all versions.
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

/// The inventory to record before anything is written: the entries so far and the wanted objects, with the uids that are known.
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

/// The write for an object that a work no longer wants.
#[derive(Clone, Debug, PartialEq)]
pub enum Removal {
    /// None, and the entry is dropped: the object is gone, or it was never ours.
    Forget,
    /// None, and the entry stays: the object is being deleted.
    Wait,
    /// Its deletion.
    Delete,
    /// Owner references without ours: the object stays for another owner, or for good.
    Release(Vec<serde_json::Value>),
}

/// Decides about an object that a work no longer wants. Only the reference with our uid makes it ours.
pub fn removal(live: Option<&Object>, owner: &OwnerReference, stays: bool) -> Removal {
    let Some(live) = live.filter(|live| applier::is_owned_by(live, owner)) else { return Removal::Forget };
    if stays || applier::has_other_owner(live, owner) {
        return Removal::Release(applier::without_owner(live, owner));
    }
    if live.is_terminating() { Removal::Wait } else { Removal::Delete }
}
