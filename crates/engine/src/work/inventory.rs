//! The objects of a work on its spoke. An object is listed from before its creation until it is gone.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::manifest::{Served, Wanted};
use crate::applier;
use api::work::v1::AppliedResource;
use object::{Object, ObjectRef};

fn identity(entry: &AppliedResource) -> (&str, &str, &str, &str) {
    (&entry.group, &entry.resource, &entry.namespace, &entry.name)
}

/// Returns the inventory to record before any other write: the existing entries and the wanted objects, with
/// known uids. The API version of an entry does not identify an object.
pub fn inventory<'a>(
    before: &[AppliedResource],
    wanted: &[Wanted],
    live: impl Fn(&ObjectRef) -> Option<&'a Object>,
) -> Vec<AppliedResource> {
    let mut entries: Vec<AppliedResource> = Vec::new();
    let is_known =
        |wanted: &&Wanted| matches!(wanted.served, Served::As { .. }) && !wanted.meta.name.is_empty();
    for manifest in wanted.iter().filter(is_known) {
        let meta = &manifest.meta;
        let known = before
            .iter()
            .find(|entry| identity(entry) == (&meta.group, &meta.resource, &meta.namespace, &meta.name));
        let uid = live(&manifest.reference).map(|object| object.uid().to_owned());
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
    let is_unwanted =
        |entry: &&AppliedResource| !entries.iter().any(|wanted| identity(wanted) == identity(entry));
    let left: Vec<_> = before.iter().filter(is_unwanted).cloned().collect();
    entries.extend(left);
    // If two manifests name one object in two versions, the first one counts.
    entries.sort_by(|a, b| identity(a).cmp(&identity(b)));
    entries.dedup_by(|a, b| identity(a) == identity(b));
    entries.sort_by(|a, b| (&a.group, &a.version, identity(a)).cmp(&(&b.group, &b.version, identity(b))));
    entries
}

/// The write for an object that a work no longer contains.
#[derive(Clone, Debug, PartialEq)]
pub enum ObjectRemoval {
    /// No write, and the entry is dropped: the object is gone or was never ours.
    Forget,
    /// No write, and the entry is kept: the object is being deleted.
    Wait,
    Delete,
    /// The owner references without the work's. The object is kept, with or without another owner.
    Release(Vec<serde_json::Value>),
}

/// Decides about an object that a work no longer contains. It is ours only if its owner reference has our uid.
pub fn removal(live: Option<&Object>, owner: &OwnerReference, stays: bool) -> ObjectRemoval {
    let Some(live) = live.filter(|live| applier::is_owned_by(live, owner)) else {
        return ObjectRemoval::Forget;
    };
    if stays || applier::has_other_owner(live, owner) {
        return ObjectRemoval::Release(applier::without_owner(live, owner));
    }
    if live.is_terminating() { ObjectRemoval::Wait } else { ObjectRemoval::Delete }
}
