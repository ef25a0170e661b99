//! The garbage collector, and the controllers that empty namespaces and definitions that are being deleted.
//!
//! A write queues the objects that it may affect ([`OwnerGraph::note`]), and [`Store::collect`] checks each of
//! them once. So the cost of a round depends on the changes and not on the number of objects, and its order
//! depends only on the store.
//!
//! One write can affect every object of a namespace. So a server works in slices ([`Store::collect_some`]), and
//! answers requests between them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use object::{Key, Object};

use super::collection::ObjectId;
use super::metadata::{FOREGROUND, ORPHAN, Owner};
use super::slice::Slice;
use super::{GroupResource, Propagation, Store, crd, delete, metadata};

/// The dependents of each owner, and the queue of objects to check.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnerGraph {
    /// The dependents of each owner by its uid.
    dependents: BTreeMap<String, BTreeSet<ObjectId>>,
    /// Objects that are being deleted, by uid, because they may wait for their dependents.
    going: BTreeMap<String, ObjectId>,
    /// Objects to check in the next round.
    pending: BTreeSet<ObjectId>,
    /// Uids of deleted objects whose dependents are not all queued yet, with the last queued dependent.
    gone: BTreeMap<String, Option<ObjectId>>,
    round: Round,
}

/// A round of checks.
#[derive(Clone, Debug, Default)]
struct Round {
    /// Objects that have not been checked.
    left: BTreeSet<ObjectId>,
    /// The revision at the start.
    began: u64,
    /// The object and progress of a check that the end of a slice interrupted.
    paused: Option<(ObjectId, Pass)>,
}

/// The progress of a walk over the objects that are deleted or changed along with another one.
#[derive(Clone, Debug, Default)]
struct Pass {
    /// True if the walk has reached the content of a namespace or definition, after the dependents.
    of_content: bool,
    /// The last visited object.
    last: Option<ObjectId>,
    /// True if one of the objects blocks the deletion of their owner.
    blocked: bool,
}

/// The maximum number of rounds in [`Store::settle`]. No chain of owners is longer.
const ROUNDS_LIMIT: usize = 1_000;
/// The number of objects to look up at once in a walk.
const BATCH: usize = 128;

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
        if self.dependents.contains_key(old.uid()) {
            self.gone.insert(old.uid().to_owned(), None);
        }
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
        self.gone.clear();
    }

    /// Queues some dependents of a deleted object; returns how many, or `None` if none are left.
    fn queue_dependents(&mut self) -> Option<usize> {
        let (uid, last) = self.gone.pop_first()?;
        let next = self.dependents_after(&uid, last.as_ref());
        let count = next.len();
        if count == BATCH {
            self.gone.insert(uid, next.last().cloned());
        }
        self.pending.extend(next);
        Some(count)
    }

    /// Returns the next dependents of an owner, after `last`.
    fn dependents_after(&self, uid: &str, last: Option<&ObjectId>) -> Vec<ObjectId> {
        let after = (last.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let dependents = self.dependents.get(uid).into_iter();
        dependents.flat_map(|places| places.range::<ObjectId, _>(after)).take(BATCH).cloned().collect()
    }

    /// Queues every object that may wait for another one.
    pub(super) fn enqueue_waiting<'a>(&mut self, objects: impl Iterator<Item = (ObjectId, &'a Arc<Object>)>) {
        let waits = |object: &Object| object.is_terminating() || !owner_uids(object).is_empty();
        self.pending.extend(objects.filter(|(_, object)| waits(object)).map(|(id, _)| id));
    }

    fn has_dependents(&self, uid: &str) -> bool {
        self.dependents.contains_key(uid)
    }
}

fn owner_uids(object: &Object) -> BTreeSet<String> {
    let list = object.at(&["metadata", "ownerReferences"]).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|owner| owner.get("uid").and_then(Value::as_str)).map(str::to_owned).collect()
}

/// The state of an owner reference.
enum OwnerState {
    Present(ObjectId, Arc<Object>),
    Absent,
    /// The state is unknown, because its kind is not served or cannot own this object.
    Unknown,
}

/// Returns when an object was last written according to its metadata, ignoring times in the future.
fn last_write(object: &Object, now: Timestamp) -> Option<Timestamp> {
    let managed = object.at(&["metadata", "managedFields"]).and_then(Value::as_array).into_iter().flatten();
    let times =
        managed.filter_map(|entry| entry.get("time")).chain(object.at(&["metadata", "creationTimestamp"]));
    let times = times.filter_map(Value::as_str).filter_map(|text| text.parse::<Timestamp>().ok());
    times.filter(|at| *at <= now).max()
}

impl Store {
    /// Runs one round; returns true if it wrote anything.
    ///
    /// It collects garbage like kube-controller-manager. An object is deleted when all of its owners are gone; if
    /// some remain, the references to the others are removed. `foregroundDeletion` waits for blocking dependents,
    /// and `orphan` removes the dependents' owner references.
    pub fn collect(&mut self, now: Timestamp) -> bool {
        self.collect_within(&mut Slice::unlimited(), now)
    }

    /// Runs a short part of a round; returns true if there is more to do.
    pub fn collect_some(&mut self, now: Timestamp) -> bool {
        self.collect_within(&mut Slice::default(), now)
    }

    /// Runs rounds until nothing is left to do.
    pub fn settle(&mut self, now: Timestamp) {
        for _ in 0..ROUNDS_LIMIT {
            if !self.collect(now) {
                return;
            }
        }
    }

    /// Continues the round, or starts another one; returns true if there is more to do.
    fn collect_within(&mut self, slice: &mut Slice, now: Timestamp) -> bool {
        if self.owner_graph.round.left.is_empty() {
            while let Some(count) = self.owner_graph.queue_dependents() {
                slice.visited(count);
                if slice.is_over() {
                    return true;
                }
            }
            let left = std::mem::take(&mut self.owner_graph.pending);
            self.owner_graph.round = Round { left, began: self.revision(), paused: None };
        }
        while let Some(id) = self.owner_graph.round.left.pop_first() {
            if let Some(pass) = self.collect_object(&id, slice, now) {
                self.owner_graph.round.left.insert(id.clone());
                self.owner_graph.round.paused = Some((id, pass));
            }
            if slice.is_over() {
                return true;
            }
        }
        self.revision() != self.owner_graph.round.began
    }

    /// Deletes events after `last` that have not been written for `keep`, in a short slice. Returns the last event
    /// that it inspected, if there are more.
    pub fn expire_events(&mut self, keep: SignedDuration, last: Option<&Key>, now: Timestamp) -> Option<Key> {
        let events = GroupResource::new("", "events");
        let is_old = |object: &Object| last_write(object, now).is_none_or(|at| now.duration_since(at) > keep);
        let after = (last.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let (mut slice, mut old, mut looked_at) = (Slice::default(), Vec::new(), None);
        for (key, object) in self.collections.get(&events)?.objects.range::<Key, _>(after) {
            if slice.is_over() {
                break;
            }
            slice.touched(object);
            looked_at = Some(key.clone());
            if is_old(object) {
                old.push(key.clone());
            }
        }
        for key in old {
            self.remove(&events, &key);
        }
        looked_at.filter(|_| slice.is_over())
    }

    fn object_at(&self, id: &ObjectId) -> Option<&Arc<Object>> {
        self.collections.get(&id.0)?.objects.get(&id.1)
    }

    /// Checks an object. Returns its progress if the slice ends first.
    fn collect_object(&mut self, id: &ObjectId, slice: &mut Slice, now: Timestamp) -> Option<Pass> {
        let paused = self.owner_graph.round.paused.take();
        let mut pass = paused.filter(|(of, _)| of == id).map(|(_, pass)| pass).unwrap_or_default();
        let object = self.object_at(id).cloned()?;
        slice.touched(&object);
        if object.is_terminating() {
            let finalizers = metadata::strings(&object, "finalizers");
            let has = |finalizer: &str| finalizers.iter().any(|one| one == finalizer);
            if !pass.of_content {
                let is_whole = if has(ORPHAN) {
                    self.orphan_dependents(id, &object, (&mut pass, slice))
                } else if has(FOREGROUND) {
                    self.delete_dependents(id, &object, (&mut pass, slice), now)
                } else {
                    true
                };
                if !is_whole {
                    return Some(pass);
                }
                pass = Pass { of_content: true, ..Pass::default() };
            }
            let is_whole = if id.0 == GroupResource::namespaces() {
                self.empty_namespace(id, (&mut pass, slice), now)
            } else if id.0 == GroupResource::definitions() {
                self.empty_definition(id, &object, (&mut pass, slice), now)
            } else {
                true
            };
            if !is_whole {
                return Some(pass);
            }
        }
        self.check_owners(id, now);
        None
    }

    /// Visits the objects of a walk in batches until the walk or the slice ends; returns true if the walk is
    /// complete.
    fn walk(
        &mut self,
        (pass, slice): (&mut Pass, &mut Slice),
        batch: impl Fn(&Self, Option<&ObjectId>) -> Vec<ObjectId>,
        mut visit: impl FnMut(&mut Self, &mut Pass, &ObjectId, &Arc<Object>),
    ) -> bool {
        loop {
            let ids = batch(self, pass.last.as_ref());
            let is_last = ids.len() < BATCH;
            for id in ids {
                if let Some(object) = self.object_at(&id).cloned() {
                    slice.touched(&object);
                    visit(self, pass, &id, &object);
                }
                pass.last = Some(id);
                // Each slice visits at least one object.
                if slice.is_over() {
                    return false;
                }
            }
            if is_last {
                return true;
            }
        }
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
            let foreground = self.owner_graph.has_dependents(object.uid())
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

    fn orphan_dependents(
        &mut self,
        id: &ObjectId,
        owner: &Object,
        progress: (&mut Pass, &mut Slice),
    ) -> bool {
        let uid = BTreeSet::from([owner.uid().to_owned()]);
        let batch =
            |store: &Self, last: Option<&ObjectId>| store.owner_graph.dependents_after(owner.uid(), last);
        let is_whole = self.walk(progress, batch, |store, _, dependent, _| {
            store.edit(dependent, |object| drop_owners(object, &uid));
        });
        if is_whole {
            self.edit(id, |object| drop_finalizer(object, ORPHAN));
        }
        is_whole
    }

    fn delete_dependents(
        &mut self,
        id: &ObjectId,
        owner: &Object,
        (pass, slice): (&mut Pass, &mut Slice),
        now: Timestamp,
    ) -> bool {
        let batch =
            |store: &Self, last: Option<&ObjectId>| store.owner_graph.dependents_after(owner.uid(), last);
        let is_whole = self.walk((pass, slice), batch, |store, pass, dependent, object| {
            store.delete_dependent(dependent, object, owner, now);
            let left = store.object_at(dependent).map(|object| metadata::owners(object));
            let mut owners = left.into_iter().flatten();
            pass.blocked |= owners.any(|one| one.uid == owner.uid() && one.blocks);
        });
        if is_whole && !pass.blocked {
            self.edit(id, |object| drop_finalizer(object, FOREGROUND));
        }
        is_whole
    }

    /// Deletes a dependent for which an owner waits, or removes the reference if it has other owners.
    fn delete_dependent(&mut self, id: &ObjectId, object: &Object, owner: &Object, now: Timestamp) {
        let others = metadata::owners(object)
            .iter()
            .any(|o| o.uid != owner.uid() && !matches!(self.owner_state(object, o), OwnerState::Absent));
        if others {
            let uid = BTreeSet::from([owner.uid().to_owned()]);
            self.edit(id, |object| drop_owners(object, &uid));
        } else if !object.is_terminating() {
            let propagation = if self.owner_graph.has_dependents(object.uid()) {
                Propagation::Foreground
            } else {
                Propagation::Background
            };
            self.terminate(id, Some(propagation), now);
        }
    }

    fn empty_namespace(&mut self, id: &ObjectId, progress: (&mut Pass, &mut Slice), now: Timestamp) -> bool {
        let name = id.1.name.clone();
        let batch = |store: &Self, last: Option<&ObjectId>| store.inside(&name, last, BATCH);
        let is_whole = self.walk(progress, batch, |store, _, content, object| {
            if !object.is_terminating() {
                store.terminate(content, Some(Propagation::Background), now);
            }
        });
        if is_whole && self.inside(&name, None, 1).is_empty() {
            self.edit(id, |namespace| {
                namespace.field_mut("spec").remove("finalizers");
            });
        }
        is_whole
    }

    /// Returns the next objects in a namespace, after `last`.
    fn inside(&self, namespace: &str, last: Option<&ObjectId>, most: usize) -> Vec<ObjectId> {
        let from = last.map_or(Bound::Unbounded, |(resource, _)| Bound::Included(resource));
        let collections = self.collections.range::<GroupResource, _>((from, Bound::Unbounded));
        let contents = collections.filter(|(_, collection)| collection.resource.namespaced);
        let contents = contents.flat_map(|(resource, collection)| {
            let after = last.filter(|(of, _)| of == resource).map(|(_, key)| key);
            collection.within_after(namespace, after).map(move |(key, _)| (resource.clone(), key.clone()))
        });
        contents.take(most).collect()
    }

    fn empty_definition(
        &mut self,
        id: &ObjectId,
        definition: &Object,
        progress: (&mut Pass, &mut Slice),
        now: Timestamp,
    ) -> bool {
        let resource = crd::resource_id(definition);
        let instances = |store: &Self, last: Option<&ObjectId>, most: usize| -> Vec<ObjectId> {
            let collection =
                store.collections.get(&resource).filter(|collection| collection.resource.is_custom());
            let after = (last.map_or(Bound::Unbounded, |(_, key)| Bound::Excluded(key)), Bound::Unbounded);
            let keys = collection.into_iter().flat_map(|one| one.objects.range::<Key, _>(after));
            keys.take(most).map(|(key, _)| (resource.clone(), key.clone())).collect()
        };
        let batch = |store: &Self, last: Option<&ObjectId>| instances(store, last, BATCH);
        let is_whole = self.walk(progress, batch, |store, _, instance, object| {
            if !object.is_terminating() {
                store.terminate(instance, Some(Propagation::Background), now);
            }
        });
        if is_whole && instances(self, None, 1).is_empty() {
            self.edit(id, |object| drop_finalizer(object, metadata::CLEANUP));
        }
        is_whole
    }

    /// Changes a stored object as the control plane, and removes it if it is terminating and has no finalizers
    /// left.
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
