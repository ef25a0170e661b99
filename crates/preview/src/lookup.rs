//! Answers lookups from stores, as the shell does from API servers.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::execute::{Servers, refused, unavailable};
use object::{Gvk, Key, Object, ObjectRef, Stored as _};
use reconcile::{
    Access, AccessReview, DryRun, Failure, Gvr, Lookup, LookupAnswer, Mapping, PodsQuery, ServerHealth, Site,
};
use store::rbac::Attributes;
use store::{ListOptions, Patch, ResourcePath, Store, User, WriteOptions};

impl Servers<'_> {
    /// Answers a lookup of a site.
    ///
    /// # Errors
    /// The server rejects the request or cannot be reached.
    pub fn look_up(&mut self, site: Site, lookup: &Lookup, now: Timestamp) -> Result<LookupAnswer, Failure> {
        let reached = || self.readable(site).ok_or_else(|| unavailable("the API server cannot be reached"));
        match lookup {
            Lookup::Mapping(gvk) => Ok(LookupAnswer::Mapping(mapping(reached()?, gvk))),
            Lookup::KindFor(gvr) => Ok(LookupAnswer::Mapping(kind_for(reached()?, gvr))),
            Lookup::Object(object) => {
                let found = object_in(reached()?, object)?;
                Ok(LookupAnswer::Object(found))
            }
            Lookup::OnHub(object) => Ok(LookupAnswer::OnHub(object_in(reached()?, object)?.is_some())),
            Lookup::Access(review) => Ok(LookupAnswer::Access(access(reached()?, review))),
            Lookup::Health => Ok(LookupAnswer::Health(self.health(site))),
            Lookup::DryRun(apply) => self.dry_run(site, apply, now),
            Lookup::Pods(PodsQuery { namespace, selector }) => {
                let options = ListOptions {
                    labels: selector.clone(),
                    limit: LookupAnswer::MAX_PODS as usize,
                    ..ListOptions::default()
                };
                let mut answer = LookupAnswer::Pods(Arc::default());
                list(reached()?, "pods", namespace, &options)?.iter().for_each(|pod| answer.add_pod(pod));
                Ok(answer)
            }
            Lookup::Warnings { namespace, uid } => {
                let options = ListOptions {
                    fields: format!("involvedObject.uid={uid},type=Warning"),
                    limit: LookupAnswer::MAX_WARNINGS as usize,
                    ..ListOptions::default()
                };
                let events = list(reached()?, "events", namespace, &options)?;
                Ok(LookupAnswer::from_events(events.iter()))
            }
        }
    }

    /// Force-applies an object in a dry run, as the shell does.
    fn dry_run(&mut self, site: Site, dry_run: &DryRun, now: Timestamp) -> Result<LookupAnswer, Failure> {
        let DryRun { object, manifest, manager, impersonate, live: _ } = dry_run;
        let mut options = WriteOptions { dry_run: true, force: true, ..WriteOptions::manager(manager) };
        let (store, target) =
            self.writable_as(site, impersonate.as_deref(), "patch", object, &mut options)?;
        let manifest = serde_json::from_str(manifest).unwrap_or_default();
        let applied = store
            .patch(&target, &Patch::Apply(manifest), &options, now)
            .map_err(|error| refused(object, &error))?;
        let applied = Object::clone(&applied.object).trim(&object.gvk);
        Ok(LookupAnswer::DryRun(Arc::new(applied)))
    }

    fn health(&self, site: Site) -> ServerHealth {
        match self.readable(site) {
            Some(_) => ServerHealth::Healthy { version: self.version.to_owned() },
            None => ServerHealth::Unhealthy("it does not respond".into()),
        }
    }
}

fn mapping(store: &Store, gvk: &Gvk) -> Option<Mapping> {
    let resource = store.resource_of(gvk)?;
    Some(Mapping { gvk: gvk.clone(), resource: resource.plural.clone(), namespaced: resource.namespaced })
}

fn kind_for(store: &Store, Gvr { group, version, resource }: &Gvr) -> Option<Mapping> {
    let mut named = store.resources().filter(|found| found.group == *group && found.plural == *resource);
    let gvk = named.find_map(|found| {
        let any = || found.versions.iter().find(|version| version.served);
        let version = found.served(version).or_else(any)?.name.clone();
        Some(Gvk { group: group.clone(), version, kind: found.kind.clone() })
    })?;
    mapping(store, &gvk)
}

fn object_in(store: &Store, object: &ObjectRef) -> Result<Option<Arc<Object>>, Failure> {
    let target = store.target(object).ok_or_else(|| Failure::not_served(&object.gvk))?;
    match store.get(&target) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.code() == 404 => Ok(None),
        Err(error) => Err(refused(object, &error)),
    }
}

fn list(
    store: &Store,
    resource: &str,
    namespace: &str,
    options: &ListOptions,
) -> Result<Vec<Value>, Failure> {
    let collection = ResourcePath::resource("", "v1", resource).at(&Key::namespaced(namespace, ""));
    let listed = store.list(&collection, options).map_err(|error| refused(&ObjectRef::default(), &error))?;
    Ok(listed.items.iter().map(|object| Value::Object(object.0.clone())).collect())
}

fn access(store: &Store, review: &AccessReview) -> Access {
    let AccessReview { user, groups, verbs, resource, key } = review;
    let user = User { name: user.clone(), groups: groups.clone(), ..User::default() };
    let target = ResourcePath::resource(&resource.group, &resource.version, &resource.resource).at(key);
    let is_allowed = |verb: &String| store.allows(&user, &Attributes::objects(verb, target.clone()));
    if verbs.iter().all(is_allowed) { Access::Allowed } else { Access::Denied }
}
