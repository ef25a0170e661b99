//! The garbage collector, and the controllers that empty namespaces and definitions that are being deleted.
//!
//! A write notes the objects that it may affect ([`OwnerGraph::note`]), and [`Store::collect`] checks each of
//! them once. So the cost of a step depends on the changes and not on the number of objects, and its order
//! depends only on the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use object::{Key, Object};

use super::collection::ObjectId;
use super::metadata::{FOREGROUND, ORPHAN, Owner};
use super::{GroupResource, Propagation, Store, crd, delete, metadata};

/// The objects that name each owner, and the queue of objects to check.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnerGraph {
    /// The dependents of each owner, by its uid.
    dependents: BTreeMap<String, BTreeSet<ObjectId>>,
    /// Objects that are being deleted, by uid: they may wait for their dependents.
    going: BTreeMap<String, ObjectId>,
    pending: BTreeSet<ObjectId>,
}

/// Most steps of [`Store::settle`]; no chain of owners is longer.
const STEPS_LIMIT: usize = 1_000;

impl OwnerGraph {
    /// Queues the objects that a write may affect.
    pub(super) fn note(&mut self, id: &ObjectId, old: Option<&Object>, new: Option<&Object>) {
        let uids =
            |object: Option<&Object>| -> BTreeSet<String> { object.map(owner_uids).unwrap_or_default() };
        let (before, after) = (uids(old), uids(new));
        for uid in before.difference(&after) {
            if let Some(places) = self.dependents.get_mut(uid) {
                places.remove(id);
                if places.is_empty() {
                    self.dependents.remove(uid);
                }
            }
            self.pending.extend(self.going.get(uid).cloned());
        }
        for uid in after.difference(&before) {
            self.dependents.entry(uid.clone()).or_default().insert(id.clone());
        }
        match new {
            Some(new) if new.is_terminating() || !after.is_empty() => {
                self.pending.insert(id.clone());
                if new.is_terminating() {
                    self.going.insert(new.uid().to_owned(), id.clone());
                }
            }
            Some(_) => {}
            None => self.set_loose(id, old),
        }
    }

    fn set_loose(&mut self, id: &ObjectId, old: Option<&Object>) {
        let Some(old) = old else { return };
        self.going.remove(old.uid());
        self.pending.extend(self.dependents.get(old.uid()).into_iter().flatten().cloned());
        // Besides its owners, its namespace and its definition may wait for its deletion.
        if !id.1.namespace.is_empty() {
            self.pending.insert((GroupResource::namespaces(), Key::cluster(id.1.namespace.clone())));
        }
        self.pending.insert((
            GroupResource::definitions(),
            Key::cluster(format!("{}.{}", id.0.resource, id.0.group)),
        ));
    }

    /// Clears the queue.
    pub(super) fn clear(&mut self) {
        self.pending.clear();
    }

    /// Queues every object again that may wait for another one.
    pub(super) fn enqueue_waiting<'a>(&mut self, objects: impl Iterator<Item = (ObjectId, &'a Arc<Object>)>) {
        let waits = |object: &Object| object.is_terminating() || !owner_uids(object).is_empty();
        self.pending.extend(objects.filter(|(_, object)| waits(object)).map(|(id, _)| id));
    }

    fn of(&self, uid: &str) -> Vec<ObjectId> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }
}

fn owner_uids(object: &Object) -> BTreeSet<String> {
    let list = object.at(&["metadata", "ownerReferences"]).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|owner| owner.get("uid").and_then(Value::as_str)).map(str::to_owned).collect()
}

/// The state of an owner that an object names.
enum OwnerState {
    Present(ObjectId, Arc<Object>),
    Absent,
    /// Its kind is not served, or cannot own this object, so nothing is known.
    Unknown,
}

/// Returns when an object was last written, as far as its metadata says; a time in the future does not count.
fn last_write(object: &Object, now: Timestamp) -> Option<Timestamp> {
    let managed = object.at(&["metadata", "managedFields"]).and_then(Value::as_array).into_iter().flatten();
    let times =
        managed.filter_map(|entry| entry.get("time")).chain(object.at(&["metadata", "creationTimestamp"]));
    let times = times.filter_map(Value::as_str).filter_map(|text| text.parse::<Timestamp>().ok());
    times.filter(|at| *at <= now).max()
}

impl Store {
    /// Does one step; returns whether it wrote anything.
    ///
    /// It collects garbage as kube-controller-manager does: an object is deleted when all of its owners are
    /// gone; if some are left, the references to the others are removed. `foregroundDeletion` waits for
    /// blocking dependents, and `orphan` removes their owner references.
    pub fn collect(&mut self, now: Timestamp) -> bool {
        let before = self.revision();
        for id in std::mem::take(&mut self.owner_graph.pending) {
            self.collect_object(&id, now);
        }
        self.revision() != before
    }

    /// Does steps until nothing is left to do.
    pub fn settle(&mut self, now: Timestamp) {
        for _ in 0..STEPS_LIMIT {
            if !self.collect(now) {
                return;
            }
        }
    }

    /// Deletes the events that were not written for this long.
    pub fn expire_events(&mut self, keep: SignedDuration, now: Timestamp) {
        let events = GroupResource::new("", "events");
        let Some(collection) = self.collections.get(&events) else { return };
        let is_old = |object: &Object| last_write(object, now).is_none_or(|at| now.duration_since(at) > keep);
        let old: Vec<Key> = collection
            .objects
            .iter()
            .filter(|(_, object)| is_old(object))
            .map(|(key, _)| key.clone())
            .collect();
        for key in old {
            self.remove(&events, &key);
        }
    }

    fn object_at(&self, id: &ObjectId) -> Option<&Arc<Object>> {
        self.collections.get(&id.0)?.objects.get(&id.1)
    }

    fn collect_object(&mut self, id: &ObjectId, now: Timestamp) {
        let Some(object) = self.object_at(id).cloned() else { return };
        if object.is_terminating() {
            let finalizers = metadata::strings(&object, "finalizers");
            if finalizers.iter().any(|f| f == ORPHAN) {
                self.orphan_dependents(id, &object);
            } else if finalizers.iter().any(|f| f == FOREGROUND) {
                self.delete_dependents(id, &object, now);
            }
            if id.0 == GroupResource::namespaces() {
                self.empty_namespace(id, now);
            }
            if id.0 == GroupResource::definitions() {
                self.empty_definition(id, &object, now);
            }
        }
        self.check_owners(id, now);
    }

    fn check_owners(&mut self, id: &ObjectId, now: Timestamp) {
        let Some(object) = self.object_at(id).cloned() else { return };
        let owners = metadata::owners(&object);
        if owners.is_empty() {
            return;
        }
        let (mut absent, mut solid) = (BTreeSet::new(), 0);
        for owner in &owners {
            match self.owner_state(&object, owner) {
                OwnerState::Absent => {
                    absent.insert(owner.uid.clone());
                }
                OwnerState::Present(..) | OwnerState::Unknown => solid += 1,
            }
        }
        if solid == 0 && !object.is_terminating() {
            let foreground = !self.owner_graph.of(object.uid()).is_empty()
                && metadata::strings(&object, "finalizers").iter().any(|f| f == FOREGROUND);
            let propagation = if foreground { Propagation::Foreground } else { Propagation::Background };
            self.terminate(id, Some(propagation), now);
        } else if solid > 0 && !absent.is_empty() {
            self.edit(id, |object| drop_owners(object, &absent));
        }
        // An owner that waits for its dependents is checked whenever one of them changes.
        for owner in &owners {
            if let OwnerState::Present(at, owner) = self.owner_state(&object, owner)
                && owner.is_terminating()
            {
                self.enqueue_waiting(at);
            }
        }
    }

    fn enqueue_waiting(&mut self, id: ObjectId) {
        self.owner_graph.pending.insert(id);
    }

    fn owner_state(&self, object: &Object, owner: &Owner) -> OwnerState {
        let Some(resource) = self.resource_of(&owner.object.gvk) else { return OwnerState::Unknown };
        if resource.namespaced && object.namespace().is_empty() {
            return OwnerState::Unknown;
        }
        let key = if resource.namespaced {
            owner.object.key.clone()
        } else {
            Key::cluster(owner.object.key.name.clone())
        };
        let id = (resource.id_of_storage(), key);
        match self.object_at(&id) {
            Some(found) if found.uid() == owner.uid => OwnerState::Present(id, found.clone()),
            Some(_) | None => OwnerState::Absent,
        }
    }

    fn orphan_dependents(&mut self, id: &ObjectId, owner: &Object) {
        let uid = BTreeSet::from([owner.uid().to_owned()]);
        for dependent in self.owner_graph.of(owner.uid()) {
            self.edit(&dependent, |object| drop_owners(object, &uid));
        }
        self.edit(id, |object| drop_finalizer(object, ORPHAN));
    }

    fn delete_dependents(&mut self, id: &ObjectId, owner: &Object, now: Timestamp) {
        let dependents = self.owner_graph.of(owner.uid());
        for dependent in &dependents {
            let Some(object) = self.object_at(dependent).cloned() else { continue };
            let others = metadata::owners(&object)
                .iter()
                .any(|o| o.uid != owner.uid() && !matches!(self.owner_state(&object, o), OwnerState::Absent));
            if others {
                let uid = BTreeSet::from([owner.uid().to_owned()]);
                self.edit(dependent, |object| drop_owners(object, &uid));
            } else if !object.is_terminating() {
                let propagation = if self.owner_graph.of(object.uid()).is_empty() {
                    Propagation::Background
                } else {
                    Propagation::Foreground
                };
                self.terminate(dependent, Some(propagation), now);
            }
        }
        let blocked = dependents.iter().filter_map(|id| self.object_at(id)).any(|object| {
            let mut owners = metadata::owners(object).into_iter();
            owners.any(|o| o.uid == owner.uid() && o.blocks)
        });
        if !blocked {
            self.edit(id, |object| drop_finalizer(object, FOREGROUND));
        }
    }

    fn empty_namespace(&mut self, id: &ObjectId, now: Timestamp) {
        let name = id.1.name.clone();
        let inside = |store: &Self| -> Vec<ObjectId> {
            let collections =
                store.collections.iter().filter(|(_, collection)| collection.resource.namespaced);
            collections
                .flat_map(|(id, collection)| {
                    collection.within(&name).map(|(key, _)| (id.clone(), key.clone()))
                })
                .collect()
        };
        for content in inside(self) {
            if self.object_at(&content).is_some_and(|object| !object.is_terminating()) {
                self.terminate(&content, Some(Propagation::Background), now);
            }
        }
        if inside(self).is_empty() {
            self.edit(id, |namespace| {
                namespace.field_mut("spec").remove("finalizers");
            });
        }
    }

    fn empty_definition(&mut self, id: &ObjectId, definition: &Object, now: Timestamp) {
        let resource = crd::resource_id(definition);
        let instances = |store: &Self| -> Vec<ObjectId> {
            let collection =
                store.collections.get(&resource).filter(|collection| collection.resource.is_custom());
            collection
                .into_iter()
                .flat_map(|collection| collection.objects.keys())
                .map(|key| (resource.clone(), key.clone()))
                .collect()
        };
        for instance in instances(self) {
            if self.object_at(&instance).is_some_and(|object| !object.is_terminating()) {
                self.terminate(&instance, Some(Propagation::Background), now);
            }
        }
        if instances(self).is_empty() {
            self.edit(id, |object| drop_finalizer(object, metadata::CLEANUP));
        }
    }

    /// Changes a stored object as the control plane, and removes it if nothing holds it any more.
    fn edit(&mut self, id: &ObjectId, change: impl FnOnce(&mut Object)) {
        let Some(collection) = self.collections.get(&id.0) else { return };
        let (resource, Some(old)) = (collection.resource.clone(), collection.objects.get(&id.1)) else {
            return;
        };
        let mut new = Object::clone(old);
        change(&mut new);
        if new == **old {
            return;
        }
        let goes = new.is_terminating() && delete::is_finalized(&resource, &new);
        self.commit(&id.0, &id.1, Some(new));
        if goes {
            self.remove(&id.0, &id.1);
        }
    }
}

fn drop_owners(object: &mut Object, uids: &BTreeSet<String>) {
    let metadata = object.metadata_mut();
    if let Some(owners) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) {
        owners.retain(|owner| owner.get("uid").and_then(Value::as_str).is_none_or(|uid| !uids.contains(uid)));
        if owners.is_empty() {
            metadata.remove("ownerReferences");
        }
    }
}

fn drop_finalizer(object: &mut Object, finalizer: &str) {
    let metadata = object.metadata_mut();
    if let Some(finalizers) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) {
        finalizers.retain(|one| one != finalizer);
        if finalizers.is_empty() {
            metadata.remove("finalizers");
        }
    }
}
