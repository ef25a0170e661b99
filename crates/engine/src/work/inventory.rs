//! The objects of a work on its spoke. An object is listed before it is created and until it is gone.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::manifest::{Served, Wanted};
use crate::applier;
use api::work::v1::AppliedResource;
use object::{Object, ObjectRef};

fn identity(entry: &AppliedResource) -> (&str, &str, &str, &str) {
    (&entry.group, &entry.resource, &entry.namespace, &entry.name)
}

/// Returns the inventory to record before any other write: the entries so far and the wanted objects, with
/// the uids that are known. The API version of an entry does not identify an object.
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
    let kept = |entry: &&AppliedResource| !entries.iter().any(|wanted| identity(wanted) == identity(entry));
    let left: Vec<_> = before.iter().filter(kept).cloned().collect();
    entries.extend(left);
    // Two manifests may name one object in two versions; the first of them counts.
    entries.sort_by(|a, b| identity(a).cmp(&identity(b)));
    entries.dedup_by(|a, b| identity(a) == identity(b));
    entries.sort_by(|a, b| (&a.group, &a.version, identity(a)).cmp(&(&b.group, &b.version, identity(b))));
    entries
}

/// The write for an object that a work no longer wants.
#[derive(Clone, Debug, PartialEq)]
pub enum ObjectRemoval {
    /// None, and the entry is dropped: the object is gone, or it was never ours.
    Forget,
    /// None, and the entry stays: the object is being deleted.
    Wait,
    /// Its deletion.
    Delete,
    /// The owner references without that of the work: the object stays, with another owner or none.
    Release(Vec<serde_json::Value>),
}

/// Decides about an object that a work no longer wants. It is ours only if it has the owner reference with
/// our uid.
pub fn removal(live: Option<&Object>, owner: &OwnerReference, stays: bool) -> ObjectRemoval {
    let Some(live) = live.filter(|live| applier::is_owned_by(live, owner)) else {
        return ObjectRemoval::Forget;
    };
    if stays || applier::has_other_owner(live, owner) {
        return ObjectRemoval::Release(applier::without_owner(live, owner));
    }
    if live.is_terminating() { ObjectRemoval::Wait } else { ObjectRemoval::Delete }
}
