//! Removes objects that a work no longer wants.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;

use super::decision::{review, served};
use super::plan::{Step, WorkOnSpoke, fields};
use api::work::v1::{AppliedResource, ManifestWork};
use engine::work::{ObjectRemoval, Served, read, removal as decide};
use object::{Gvk, Key, Metadata as _, ObjectRef};
use reconcile::{
    Access, Action, Gvr, Lookup, LookupAnswer, Precondition, Query, Read, Site, Subresource, View,
};

impl WorkOnSpoke {
    /// Returns the next step for an unwanted entry. If `stays`, the object is left in place.
    pub(super) fn remove(
        &self,
        entry: &AppliedResource,
        owner: &OwnerReference,
        stays: bool,
        view: &impl View,
    ) -> Step {
        // Keep an entry whose kind or object cannot be read: the object may exist.
        let target = match self.object_of(entry, view) {
            Ok(Some(target)) => target,
            Ok(None) => return Step::NotServed,
            Err(_) => return Step::Wait,
        };
        let Ok(live) = view.object(&target) else { return Step::Wait };
        // Another work may take over the object before the write. See docs/hazards-clusters.md#moved-object.
        let mut precondition = Precondition::default();
        if let Some(live) = &live {
            live.uid().clone_into(&mut precondition.uid);
            live.resource_version().clone_into(&mut precondition.resource_version);
        }
        let mut removal = decide(live.as_deref(), owner, stays);
        if removal == ObjectRemoval::Delete {
            match self.is_wanted_by_another(&target, view) {
                Ok(false) => {}
                Ok(true) => removal = decide(live.as_deref(), owner, true),
                Err(_) => return Step::Wait,
            }
        }
        match removal {
            ObjectRemoval::Forget => Step::Forget,
            ObjectRemoval::Wait => Step::Wait,
            ObjectRemoval::Delete => {
                let (site, impersonate) = (Site::Spoke, self.executor().user());
                Step::Write(Box::new(Action::Delete {
                    site,
                    target,
                    precondition,
                    orphan: false,
                    impersonate,
                }))
            }
            ObjectRemoval::Release(owners) => {
                let patch = fields(json!({"metadata": {"ownerReferences": owners}}));
                // Releasing ownership harms nobody, so the agent does it with its own identity.
                let (site, subresource, impersonate) = (Site::Spoke, Subresource::None, None);
                Step::Write(Box::new(Action::Patch {
                    site,
                    target,
                    subresource,
                    patch,
                    precondition,
                    impersonate,
                }))
            }
        }
    }

    /// Returns true if the executor is known to lack permission to delete an object.
    pub(super) fn may_not_delete(&self, entry: &AppliedResource, view: &impl View) -> bool {
        let Some(permissions) = self.executor().deletion() else { return false };
        let key = Key::namespaced(&entry.namespace, &entry.name);
        matches!(view.access(review(permissions, resource(entry), key)), Ok(Access::Denied))
    }

    /// Returns true if another work of the hub applies an object, even if it has not taken it over yet.
    fn is_wanted_by_another(&self, target: &ObjectRef, view: &impl View) -> Read<bool> {
        view.mapping(&target.gvk)?;
        let name = json!(target.key.name);
        let names_it = |work: &ManifestWork| {
            let mut manifests = work.spec.workload.manifests.iter();
            manifests
                .any(|manifest| manifest.get("metadata").and_then(|meta| meta.get("name")) == Some(&name))
        };
        let works = view.list_readable::<ManifestWork>(Query::namespace(&self.key.namespace))?;
        let mut others = works
            .iter()
            .filter(|work| work.name() != self.key.name && !work.is_terminating() && names_it(work.as_ref()));
        Ok(others.any(|work| read(work, |gvk| served(gvk, view)).iter().any(|wanted| wanted.applies(target))))
    }

    /// Returns the object of an entry, which names a resource but no kind; `None` if the cluster does not serve
    /// the resource.
    fn object_of(&self, entry: &AppliedResource, view: &impl View) -> Read<Option<ObjectRef>> {
        let key = Key::namespaced(&entry.namespace, &entry.name);
        let named = self.wanted.iter().find(|wanted| {
            matches!(wanted.served, Served::As { .. })
                && (&wanted.meta.group, &wanted.meta.resource) == (&entry.group, &entry.resource)
        });
        if let Some(wanted) = named {
            return Ok(Some(ObjectRef { gvk: wanted.reference.gvk.clone(), key }));
        }
        let gvk: Option<Gvk> = match view.lookup(&Lookup::KindFor(resource(entry)))? {
            LookupAnswer::Mapping(mapping) => mapping.map(|mapping| mapping.gvk),
            LookupAnswer::Object(_)
            | LookupAnswer::OnHub(_)
            | LookupAnswer::Access(_)
            | LookupAnswer::Health(_)
            | LookupAnswer::Pods(_)
            | LookupAnswer::Warnings(_)
            | LookupAnswer::DryRun(_) => None,
        };
        Ok(gvk.map(|gvk| ObjectRef { gvk, key }))
    }
}

fn resource(entry: &AppliedResource) -> Gvr {
    Gvr { group: entry.group.clone(), version: entry.version.clone(), resource: entry.resource.clone() }
}
