//! The owners of fields, and how updates and applies change them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{FieldSet, compare, fields_v1, merged, set_of, without};
use crate::Object;
use crate::builtin_lists::Position;

/// The maximum number of update entries; beyond it, the oldest are merged (apiserver `DefaultMaxUpdateManagers`).
const UPDATERS_LIMIT: usize = 10;

/// The entry into which old updates are merged (apiserver `ancient-changes`).
const ANCIENT: &str = "ancient-changes";

/// The owner of the fields that an object had before its first apply (apiserver `before-first-apply`).
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Fields of built-in kinds that Go stores by value: they are never absent, so no manager adds them.
const STRUCTS: [&str; 10] = [
    "spec",
    "status",
    "template",
    "jobTemplate",
    "strategy",
    "updateStrategy",
    "names",
    "acceptedNames",
    "involvedObject",
    "source",
];

/// The operation by which fields came to be owned. Applies sort first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Any other write.
    Update,
}

/// An owner of fields: a manager, an operation, a version and a subresource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Manager {
    /// Apply and update have separate entries, even under one name.
    pub operation: Operation,
    /// `manager` in `managedFields`.
    pub name: String,
    /// The `apiVersion` of its field names. Only updates have a separate entry for each version.
    pub api_version: String,
    /// The subresource that it writes through.
    pub subresource: String,
}

impl Manager {
    /// Returns a manager that writes the version of an object.
    pub fn new(operation: Operation, name: &str, object: &Object) -> Self {
        let (name, api_version) = (name.to_owned(), object.api_version().to_owned());
        Self { operation, name, api_version, subresource: String::new() }
    }

    /// Returns true if two entries belong to the same manager. An applier is identified by its name only,
    /// whichever version it last applied.
    fn is(&self, other: &Self) -> bool {
        let same_version = self.operation == Operation::Apply || self.api_version == other.api_version;
        (self.operation, &self.name, &self.subresource) == (other.operation, &other.name, &other.subresource)
            && same_version
    }
}

/// Formats the manager for a conflict: `"kubectl" using apps/v1`.
impl std::fmt::Display for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.name)?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {:?}", self.subresource)?;
        }
        match self.operation {
            Operation::Apply => Ok(()),
            Operation::Update => write!(f, " using {}", self.api_version),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
struct ManagedEntry {
    manager: Manager,
    time: String,
    fields: FieldSet,
}

/// The owners of the fields of one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Owners {
    entries: Vec<ManagedEntry>,
}

/// The values of an apply.
#[derive(Clone, Copy, Debug)]
pub struct Applying<'v> {
    /// The value of an object of the kind before the first write.
    pub zero: &'v Value,
    /// The current object.
    pub live: &'v Value,
    /// The configuration to merge into it.
    pub config: &'v Value,
    /// The configuration as sent. The applier comes to own all of its fields, even null or empty ones that are not
    /// merged.
    pub named: &'v Value,
    /// If true, takes fields from other owners.
    pub force: bool,
}

/// Fields that an apply would change although another manager owns them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The other owner.
    pub manager: Manager,
    /// Its fields among those that the apply would change.
    pub fields: FieldSet,
}

impl Owners {
    /// Parses `metadata.managedFields`, dropping malformed entries.
    pub fn read(managed_fields: Option<&Value>) -> Self {
        let entries = managed_fields.and_then(Value::as_array).into_iter().flatten();
        Self { entries: entries.filter_map(ManagedEntry::read).collect() }
    }

    /// Returns `metadata.managedFields`: applies first, oldest first.
    pub fn to_values(&self) -> Vec<Value> {
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_by_key(|entry| {
            let manager = &entry.manager;
            (manager.operation, &entry.time, &manager.name, &manager.api_version, &manager.subresource)
        });
        entries.into_iter().map(ManagedEntry::to_value).collect()
    }

    /// Returns true if no field has an owner.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the fields of a manager.
    pub fn fields_of(&self, manager: &Manager) -> FieldSet {
        self.entries
            .iter()
            .find(|entry| entry.manager.is(manager))
            .map(|entry| entry.fields.clone())
            .unwrap_or_default()
    }

    /// Returns the fields that a manager last applied, if it did so in this `apiVersion`. In another version, they
    /// may have other names.
    pub(crate) fn applied_by(&self, manager: &str, api_version: &str) -> Option<&FieldSet> {
        let applies = self.entries.iter().filter(|entry| entry.manager.operation == Operation::Apply);
        let mut ours = applies.filter(|ManagedEntry { manager: entry, .. }| {
            entry.name == manager && entry.subresource.is_empty() && entry.api_version == api_version
        });
        ours.next().map(|entry| &entry.fields)
    }

    /// Gives the fields of other owners to an applier; returns `None` if there are none. Entries of another
    /// `apiVersion` are unchanged, because their fields may have other names.
    #[must_use]
    pub fn given(mut self, to: &Manager, from: impl Fn(&Manager) -> bool, time: &str) -> Option<Self> {
        let is_given = |entry: &ManagedEntry| {
            let Manager { api_version, subresource, .. } = &entry.manager;
            !entry.manager.is(to)
                && (api_version, subresource) == (&to.api_version, &to.subresource)
                && from(&entry.manager)
        };
        let (given, others): (Vec<_>, Vec<_>) = self.entries.drain(..).partition(is_given);
        if given.is_empty() {
            return None;
        }
        self.entries = others;
        let before = self.fields_of(to);
        self.put(to, given.iter().fold(before, |all, entry| all.union(&entry.fields)), time);
        Some(self)
    }

    /// Returns the fields owned by other appliers.
    pub fn applied_by_others(&self, manager: &str) -> FieldSet {
        let appliers = self.entries.iter().filter(|entry| entry.manager.operation == Operation::Apply);
        let others = appliers.filter(|entry| entry.manager.name != manager);
        others.fold(FieldSet::default(), |all, entry| all.union(&entry.fields))
    }

    /// Returns the managers that own any of the fields, with the fields that each owns.
    pub(crate) fn among(&self, fields: &FieldSet) -> Vec<(&Manager, FieldSet)> {
        let owned = self.entries.iter().map(|entry| (&entry.manager, entry.fields.intersection(fields)));
        owned.filter(|(_, fields)| !fields.is_empty()).collect()
    }

    /// Records an update by `manager` that changed `old` to `new`. The manager becomes the only owner of the
    /// changed fields.
    #[must_use]
    pub fn updated(
        mut self,
        manager: &Manager,
        values: (&Value, &Value),
        at: Position<'_>,
        time: &str,
    ) -> Self {
        let changes = compare(values.0, values.1, at);
        let taken = changes.modified.clone().union(&changes.added);
        self.take_from_others(manager, &taken.clone().union(&changes.removed));
        let before = self.fields_of(manager);
        let mut after = before.difference(&changes.removed).union(&taken);
        if matches!(at, Position::Builtin(_)) {
            after = after.without_containers(&STRUCTS);
        }
        self.put(manager, without_system_fields(&after), time);
        self.cap_updaters();
        self
    }

    /// Records an apply of `config` by `manager` to `live`; returns the resulting value and its owners.
    ///
    /// # Errors
    /// Returns the fields of other owners that the apply would change, unless it is forced.
    pub fn applied(
        mut self,
        manager: &Manager,
        Applying { zero, live, config, named, force }: Applying<'_>,
        at: Position<'_>,
        time: &str,
    ) -> Result<(Value, Self), Vec<Conflict>> {
        if self.is_empty() && live.as_object().is_some_and(|live| !live.is_empty()) {
            let all = without_system_fields(&compare(zero, live, at).added);
            let before = Manager {
                operation: Operation::Update,
                name: BEFORE_FIRST_APPLY.into(),
                subresource: String::new(),
                ..manager.clone()
            };
            self.put(&before, all, time);
        }
        let last = self.fields_of(manager);
        let set = set_of(named, at);
        let others = self.entries.iter().filter(|entry| !entry.manager.is(manager));
        let owned = others.clone().fold(set.clone(), |all, entry| all.union(&entry.fields));
        let with = |config| without(&merged(live, config, at), &last, &owned, at);
        let as_sent = with(named);
        let changes = compare(live, &as_sent, at);
        let taken = changes.modified.clone().union(&changes.added);
        let conflicts: Vec<_> = others
            .map(|entry| Conflict {
                manager: entry.manager.clone(),
                fields: entry.fields.intersection(&taken),
            })
            .filter(|conflict| !conflict.fields.is_empty())
            .collect();
        if !force && !conflicts.is_empty() {
            return Err(conflicts);
        }
        self.take_from_others(manager, &taken.union(&changes.removed));
        let value = if config == named { as_sent } else { with(config) };
        let set = without_system_fields(&set);
        if set != last || live != &value {
            self.put(manager, set, time);
        }
        Ok((value, self))
    }

    fn take_from_others(&mut self, manager: &Manager, fields: &FieldSet) {
        for entry in self.entries.iter_mut().filter(|entry| !entry.manager.is(manager)) {
            entry.fields = entry.fields.difference(fields);
        }
        self.entries.retain(|entry| !entry.fields.is_empty());
    }

    /// Sets the fields of a manager. The time of its entry changes only if the fields do.
    fn put(&mut self, manager: &Manager, fields: FieldSet, time: &str) {
        match self.entries.iter_mut().find(|entry| entry.manager.is(manager)) {
            Some(entry) if entry.fields == fields && entry.manager == *manager => {}
            Some(entry) => *entry = ManagedEntry { manager: manager.clone(), time: time.into(), fields },
            None => self.entries.push(ManagedEntry { manager: manager.clone(), time: time.into(), fields }),
        }
        self.entries.retain(|entry| !entry.fields.is_empty());
    }

    fn cap_updaters(&mut self) {
        let mut updaters: Vec<_> = self
            .entries
            .iter()
            .filter(|entry| entry.manager.operation == Operation::Update)
            .cloned()
            .collect();
        if updaters.len() <= UPDATERS_LIMIT {
            return;
        }
        updaters.sort_by(|a, b| (&a.time, &a.manager).cmp(&(&b.time, &b.manager)));
        updaters.truncate(updaters.len() - UPDATERS_LIMIT + 1);
        let merged: BTreeSet<&Manager> = updaters.iter().map(|old| &old.manager).collect();
        self.entries.retain(|entry| !merged.contains(&entry.manager));
        let mut ancient: BTreeMap<String, ManagedEntry> = BTreeMap::new();
        for old in updaters {
            let manager = Manager { name: ANCIENT.into(), subresource: String::new(), ..old.manager.clone() };
            let slot = ancient.entry(manager.api_version.clone()).or_insert_with(|| ManagedEntry {
                manager,
                time: old.time.clone(),
                fields: FieldSet::default(),
            });
            slot.fields = std::mem::take(&mut slot.fields).union(&old.fields);
            slot.time.clone_from(&old.time);
        }
        self.entries.extend(ancient.into_values());
    }
}

impl ManagedEntry {
    fn read(value: &Value) -> Option<Self> {
        let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let operation = match text("operation").as_str() {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        let manager = Manager {
            operation,
            name: text("manager"),
            api_version: text("apiVersion"),
            subresource: text("subresource"),
        };
        Some(Self { manager, time: text("time"), fields: FieldSet::from_v1(&*fields_v1(value)?) })
    }

    fn to_value(&self) -> Value {
        let manager = &self.manager;
        let operation = match manager.operation {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        };
        let mut value = serde_json::json!({
            "manager": manager.name, "operation": operation, "apiVersion": manager.api_version, "time": self.time,
            "fieldsType": "FieldsV1", "fieldsV1": self.fields.to_v1(),
        });
        if let (false, Some(fields)) = (manager.subresource.is_empty(), value.as_object_mut()) {
            fields.insert("subresource".into(), manager.subresource.clone().into());
        }
        value
    }
}

/// Removes the fields that only the server sets (apiserver `stripSet`).
fn without_system_fields(set: &FieldSet) -> FieldSet {
    let system = serde_json::json!({
        "f:apiVersion": {}, "f:kind": {}, "f:metadata": {
            ".": {}, "f:name": {}, "f:namespace": {}, "f:creationTimestamp": {}, "f:selfLink": {}, "f:uid": {}, "f:clusterName": {},
            "f:generation": {}, "f:managedFields": {}, "f:resourceVersion": {},
        },
    });
    set.difference(&FieldSet::from_v1(&system))
}

#[cfg(test)]
mod tests;
