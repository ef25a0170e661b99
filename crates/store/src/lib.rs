//! The Kubernetes API machinery in memory: the behavior of kube-apiserver, its garbage collector and its namespace
//! controller, as a value.
//!
//! A [`Store`] has no clock, threads or network. The time is an argument, uids come from a seed, and the work of
//! the control plane (collecting garbage, emptying namespaces) is a step that the caller runs
//! ([`Store::collect`]). The simulator owns hundreds of stores; `apiserver` serves one over HTTP. A store must be
//! at least as strict as a real API server: whatever it accepts, a real one accepts too.
//!
//! - Reads: [`Store::get`], [`Store::list`], [`Store::watch`] and [`Store::poll`].
//! - Writes: [`Store::create`], [`Store::update`], [`Store::patch`], [`Store::delete`],
//!   [`Store::delete_collection`].
//! - Names: [`Store::target`] returns the path of an object, [`Store::resources`] lists what is served.
//! - Durability: [`Store::take_journal`] returns the writes, [`Store::restore`] reads them back.
//!
//! The store does not authorize requests; its callers check `rbac` first.

mod admission;
mod api_resource;
mod builtin;
mod collect;
mod collection;
mod cost;
mod crd;
mod delete;
mod error;
mod field_selector;
mod format;
mod ids;
mod journal;
mod limits;
mod metadata;
mod ownership;
mod patching;
mod prune;
mod quota;
pub mod rbac;
mod read;
mod request;
mod request_scope;
mod rules;
mod scale;
mod schema;
mod slice;
mod subresource;
#[cfg(test)]
mod tests;
mod validate;
mod watch;
mod write;
mod write_request;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use object::{Gvk, Key, Object, ObjectRef};

pub use api_resource::{
    ApiResource, ApiResources, Column, Generation, GroupResource, NameRule, Scale, Version,
};
pub use builtin::{PrinterColumn, Subresource, age};
pub use error::{ApiError, FieldError};
pub use journal::{JournalEntry, Restoration};
pub use request::{
    DeleteOptions, Deleted, FieldValidation, List, ListOptions, Patch, Propagation, ResourcePath, User,
    WriteOptions, Written,
};
pub use request_scope::RequestScope;
pub use rules::Rules;
pub use schema::{Checks, ListType, Schema, Type};
pub use watch::{Watch, WatchEvent, WatchEventType, WatchOptions};

use collection::{Collection, WatchCacheEvent};
use ids::Ids;

/// Returns the definitions that the schemas of built-in kinds refer to, by name: the `components.schemas` of an
/// OpenAPI document.
pub fn definitions() -> &'static serde_json::Map<String, serde_json::Value> {
    &builtin::DEFINITIONS.openapi
}

/// Converts an object to another `apiVersion` of its kind.
pub type Convert = fn(&Object, &str) -> Result<Object, String>;

/// An in-memory API server: objects, their kinds, and one resource version that counts every write.
#[derive(Clone, Debug)]
pub struct Store {
    revision: u64,
    ids: Ids,
    collections: BTreeMap<GroupResource, Collection>,
    /// Resources that show the objects of another one, such as those in `events.k8s.io`.
    aliases: ApiResources,
    /// Conversions of kinds whose versions differ in more than their name, by group and kind.
    conversions: BTreeMap<(String, String), Convert>,
    journal: Option<Vec<JournalEntry>>,
    owner_graph: collect::OwnerGraph,
    admission: admission::Policies,
    usage: quota::Usage,
    /// The memory limit for past objects that are kept for watchers, in bytes, over all resources.
    history: usize,
}

impl Store {
    /// Creates a store with the built-in kinds and the namespaces that every cluster has.
    pub fn new(seed: u64, now: Timestamp) -> Self {
        let mut store = Self::bare(seed);
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
            let object = Object::from_value(namespace).expect("a JSON object just above");
            let created = store.create(
                &ResourcePath::resource("", "v1", "namespaces"),
                object,
                &WriteOptions::manager("kube-apiserver"),
                now,
            );
            debug_assert!(created.is_ok(), "{created:?}");
        }
        store
    }

    /// Creates a store with the built-in kinds but no objects, for [`Store::restore`].
    fn bare(seed: u64) -> Self {
        let collections = builtin::resources()
            .into_iter()
            .map(|(id, resource)| (id, Collection::new(resource, 0)))
            .collect();
        Self {
            revision: 0,
            ids: Ids::new(seed),
            collections,
            aliases: builtin::aliases(),
            conversions: builtin::conversions(),
            journal: None,
            owner_graph: collect::OwnerGraph::default(),
            admission: admission::Policies::default(),
            usage: quota::Usage::default(),
            history: usize::MAX,
        }
    }

    /// Registers the conversion between the versions of a kind. Without one, versions differ only in `apiVersion`.
    #[must_use]
    pub fn converting(mut self, group: &str, kind: &str, convert: Convert) -> Self {
        self.conversions.insert((group.into(), kind.into()), convert);
        self
    }

    /// Returns the resource version of the last write.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns everything that is served, ordered by group and plural name.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<ApiResource>> {
        self.collections.values().map(|collection| &collection.resource).chain(self.aliases.values())
    }

    /// Returns the resource of a kind if it serves the kind's version.
    pub fn resource_of(&self, gvk: &Gvk) -> Option<&Arc<ApiResource>> {
        self.resources()
            .find(|r| r.group == gvk.group && r.kind == gvk.kind && r.served(&gvk.version).is_some())
    }

    /// Returns the path of an object; `None` if its kind is not served in that version.
    pub fn target(&self, object: &ObjectRef) -> Option<ResourcePath> {
        let resource = self.resource_of(&object.gvk)?;
        Some(ResourcePath::resource(&resource.group, &object.gvk.version, &resource.plural).at(&object.key))
    }

    fn convert(
        &self,
        mut object: Object,
        resource: &ApiResource,
        api_version: &str,
    ) -> Result<Object, ApiError> {
        if object.api_version() == api_version {
            return Ok(object);
        }
        match self.conversions.get(&(resource.group.clone(), resource.kind.clone())) {
            Some(convert) => convert(&object, api_version).map_err(|error| {
                ApiError::internal(format!(
                    "conversion of {} to {api_version} failed: {error}",
                    object.reference()
                ))
            }),
            None => {
                object.0.insert("apiVersion".into(), api_version.into());
                Ok(object)
            }
        }
    }

    /// Writes an object; every write goes through here. `new` is complete except for its resource version; `None`
    /// deletes the object.
    fn commit(&mut self, id: &GroupResource, key: &Key, new: Option<Object>) -> Option<Arc<Object>> {
        self.collections.get(id)?;
        self.revision += 1;
        let revision = self.revision;
        let new = new.map(|object| stamp(object, revision));
        let place = (id.clone(), key.clone());
        if let Some(journal) = &mut self.journal {
            let (resource, key) = place.clone();
            journal.push(JournalEntry { revision, resource, key, object: new.clone() });
        }
        let left = self.record(&place, new);
        if *id == GroupResource::definitions() {
            return self.write_definition_status(key).or(left);
        }
        left
    }

    /// Records the object after the write of this revision, and returns it. For a deletion, returns the last
    /// state.
    fn record(&mut self, place: &collection::ObjectId, new: Option<Arc<Object>>) -> Option<Arc<Object>> {
        let (id, key) = place;
        let revision = self.revision;
        let collection = self.collections.get_mut(id)?;
        let old = collection.objects.get(key).cloned();
        let old = if new.is_none() { old.map(|old| stamp(Object::clone(&old), revision)) } else { old };
        let left = new.clone().or_else(|| old.clone());
        self.owner_graph.note(place, old.as_deref(), new.as_deref());
        self.admission.note(id, &key.name, new.as_deref());
        self.usage.note(place, old.as_deref(), new.as_deref());
        collection.record(WatchCacheEvent { revision, key: key.clone(), old, new });
        self.shorten_history();
        if *id == GroupResource::definitions() {
            self.follow_definition(left.as_deref(), key);
        }
        left
    }

    /// Sets the memory limit for past objects that are kept for watchers, in bytes.
    pub fn set_history(&mut self, bytes: usize) {
        self.history = bytes;
    }

    /// Drops the oldest changes of the resources with the longest histories, until the limit is met.
    fn shorten_history(&mut self) {
        while self.collections.values().map(|collection| collection.log_bytes).sum::<usize>() > self.history {
            let longest = self.collections.values_mut().max_by_key(|collection| collection.log_bytes);
            longest.into_iter().for_each(Collection::forget_oldest);
        }
    }
}

fn stamp(mut object: Object, revision: u64) -> Arc<Object> {
    object.metadata_mut().insert("resourceVersion".into(), revision.to_string().into());
    Arc::new(object)
}
