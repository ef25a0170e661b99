//! The checker's own copy of a store.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};
use std::sync::Arc;

use jiff::Timestamp;

use engine::sync::ObjectId;
use object::{Key, Object};
use store::{GroupResource, JournalEntry};

/// One change of one object.
#[derive(Clone, Debug)]
pub struct Write {
    /// The time of the write.
    pub at: Timestamp,
    /// The spoke on which it happened; `None` for the hub.
    pub spoke: Option<String>,
    /// The controller that wrote, or `others`.
    pub by: String,
    /// The object that changed.
    pub id: ObjectId,
    /// The object before the write; `None` if the write created it.
    pub before: Option<Arc<Object>>,
    /// The object after the write; `None` if the write deleted it.
    pub after: Option<Arc<Object>>,
}

/// The objects of one store.
#[derive(Default)]
pub(super) struct Mirror {
    objects: BTreeMap<ObjectId, Arc<Object>>,
    /// The kind of each resource seen so far.
    kinds: BTreeMap<GroupResource, String>,
}

impl Mirror {
    /// Applies a journal entry; returns `None` for the deletion of an object that the mirror never saw.
    pub(super) fn take(&mut self, entry: JournalEntry, at: Timestamp, by: &str) -> Option<Write> {
        let JournalEntry { revision: _, resource, key, object } = entry;
        if let Some(object) = &object {
            self.kinds.insert(resource.clone(), object.kind().to_owned());
        }
        let id = ObjectId { kind: self.kinds.get(&resource)?.clone(), group: resource.group, key };
        let before = match &object {
            Some(object) => self.objects.insert(id.clone(), Arc::clone(object)),
            None => self.objects.remove(&id),
        };
        Some(Write { at, spoke: None, by: by.to_owned(), id, before, after: object })
    }

    pub(super) fn get(&self, id: &ObjectId) -> Option<&Arc<Object>> {
        self.objects.get(id)
    }

    /// Returns a typed object; `None` if it does not exist or does not match its type.
    pub(super) fn typed<K: object::Kind>(&self, key: &Key) -> Option<K> {
        let gvk = object::Gvk::of::<K>();
        self.get(&ObjectId { group: gvk.group, kind: gvk.kind, key: key.clone() })?.to_typed().ok()
    }

    /// Returns the object with this key in a resource, such as `deployments` in `apps`.
    pub(super) fn of_resource(&self, resource: &GroupResource, key: &Key) -> Option<&Arc<Object>> {
        let kind = self.kinds.get(resource)?.clone();
        self.get(&ObjectId { group: resource.group.clone(), kind, key: key.clone() })
    }

    /// Returns the plural name of a kind.
    pub(super) fn resource(&self, group: &str, kind: &str) -> Option<&str> {
        let is = |(id, of): &(&GroupResource, &String)| id.group == group && of.as_str() == kind;
        self.kinds.iter().find(is).map(|(id, _)| id.resource.as_str())
    }

    pub(super) fn of_kind(&self, group: &str, kind: &str) -> impl Iterator<Item = &Arc<Object>> {
        let first = ObjectId { group: group.into(), kind: kind.into(), key: Key::default() };
        let of_kind = self.objects.range(first.clone()..);
        of_kind
            .take_while(move |(id, _)| (&id.group, &id.kind) == (&first.group, &first.kind))
            .map(|(_, object)| object)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&ObjectId, &Arc<Object>)> {
        self.objects.iter()
    }
}

/// Formats a write like `12:00:03 cluster1 work-agent: updated Deployment.apps default/app`.
impl Display for Write {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let verb = match (&self.before, &self.after) {
            (None, _) => "created",
            (Some(_), None) => "deleted",
            (Some(before), Some(after)) if !before.is_terminating() && after.is_terminating() => {
                "marked deleted"
            }
            (Some(_), Some(_)) => "updated",
        };
        let time = self.at.strftime("%H:%M:%S%.3f");
        let Self { spoke, by, id, before, after, at: _ } = self;
        write!(f, "{time} {} {by}: {verb} {id}", spoke.as_deref().unwrap_or("hub"))?;
        if let (Some(before), Some(after)) = (before, after) {
            let mut sides = [Object::clone(before), Object::clone(after)];
            for side in &mut sides {
                let metadata = side.metadata_mut();
                for noise in ["managedFields", "resourceVersion", "generation"] {
                    metadata.remove(noise);
                }
            }
            let [before, after] = sides.map(Object::into_value);
            let change = object::merge_diff(&before, &after).unwrap_or_default().to_string();
            let short: String = change.chars().take(400).collect();
            write!(f, " {short}")?;
        }
        Ok(())
    }
}
