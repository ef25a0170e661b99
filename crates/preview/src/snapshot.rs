//! The objects of a hub at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::error::PreviewError;
use super::left_out::LeftOut;
use super::runner::Runner;
use super::scope::PreviewScope;
use api::crds;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use object::{Gvk, Object, hex};
use store::{GroupResource, JournalEntry, Store};

/// The seed that makes uids of new objects differ from those on the hub.
pub(super) const SEED: u64 = 0x7072_6576_6965_7701;

/// The objects of a hub at one moment.
#[derive(Clone, Debug, Default)]
pub struct HubSnapshot {
    /// The objects. Complete objects are shared, not copied.
    pub objects: Vec<Arc<Object>>,
    /// The kinds whose objects were all read; `None` if unknown, as for a file.
    pub kinds: Option<BTreeSet<Gvk>>,
    /// The objects of add-ons and sets that were not read.
    pub left_out: LeftOut,
    /// The kinds with an object whose uid the hub knows, but not the snapshot.
    pub without_uid: BTreeSet<String>,
}

impl HubSnapshot {
    /// Takes a snapshot of every object in a store.
    pub fn new(hub: &Store) -> Self {
        let objects = hub.snapshot().filter_map(|entry| entry.object).collect();
        let kinds = hub.resources().flat_map(|resource| {
            resource.versions.iter().map(|version| Gvk {
                group: resource.group.clone(),
                version: version.name.clone(),
                kind: resource.kind.clone(),
            })
        });
        Self { objects, kinds: Some(kinds.collect()), ..Self::default() }
    }

    /// Returns the kinds that a preview reads in addition to the kinds in the commit.
    ///
    /// # Errors
    /// Fails if the controllers never come to rest on an empty hub.
    pub fn kinds_of_controllers(now: Timestamp) -> Result<BTreeSet<Gvk>, PreviewError> {
        let mut hub = Self::default().load(&PreviewScope::All, now);
        let mut runner = Runner::new(&PreviewScope::All, &hub);
        runner.settle(&mut hub, now)?;
        let mut kinds = runner.kinds;
        kinds.insert(Gvk::of::<CustomResourceDefinition>());
        Ok(kinds)
    }

    /// Returns true if every object of a kind was read. All versions of a kind have the same objects.
    pub(super) fn has_read(&self, kind: &Gvk) -> bool {
        let is = |gvk: &Gvk| gvk.group == kind.group && gvk.kind == kind.kind;
        self.kinds.iter().flatten().chain(self.left_out.kinds()).any(is)
            || self.objects.iter().any(|object| is(&object.gvk()))
    }

    /// Returns true if every object of the matching kinds has its uid from the hub. A report leaves out the uids
    /// of objects that only a commit determines.
    pub(super) fn knows_uids(&self, is_asked: impl Fn(&str) -> bool) -> bool {
        !self.without_uid.iter().any(|kind| is_asked(kind))
            && self.objects.iter().all(|object| !object.uid().is_empty() || !is_asked(object.kind()))
    }

    /// Returns a store with the objects that a scope loads. It adds our own CRDs if the snapshot lacks them.
    pub(super) fn load(&self, scope: &PreviewScope, now: Timestamp) -> Store {
        let mut base = Store::new(SEED, now);
        crate::definitions::install(&mut base, crds::hub(), now);
        let definitions = self.objects.iter().filter(|object| object.kind() == "CustomResourceDefinition");
        let definitions: Vec<JournalEntry> =
            definitions.enumerate().filter_map(|it| entry(&base, it)).collect();
        let mut entries: BTreeMap<_, JournalEntry> = BTreeMap::new();
        let mut add =
            |entry: JournalEntry| entries.insert((entry.resource.clone(), entry.key.clone()), entry);
        for entry in base.snapshot().chain(definitions) {
            add(entry);
        }
        let kinds = definitions_first(entries.values().cloned());
        let known = Store::restore(SEED, kinds, 0, now);
        let loaded = self.objects.iter().enumerate().filter(|(_, object)| scope.loads(object));
        for entry in loaded.filter_map(|it| entry(&known, it)) {
            entries.insert((entry.resource.clone(), entry.key.clone()), entry);
        }
        let reserved = entries.values().map(|entry| entry.revision).max().unwrap_or_default();
        Store::restore(
            SEED ^ now.as_second().unsigned_abs(),
            definitions_first(entries.into_values()),
            reserved,
            now,
        )
    }
}

fn definitions_first(entries: impl Iterator<Item = JournalEntry>) -> Vec<JournalEntry> {
    let mut entries: Vec<JournalEntry> = entries.collect();
    entries.sort_by_key(|entry| {
        entry.resource != GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions")
    });
    entries
}

/// Returns the journal entry for an object whose kind the store serves.
fn entry(store: &Store, (index, object): (usize, &Arc<Object>)) -> Option<JournalEntry> {
    let resource = store.resource_of(&object.gvk())?.id();
    let mut object = Arc::clone(object);
    if !is_complete(&object) {
        complete(Arc::make_mut(&mut object), index);
    }
    let revision = object::version(object.resource_version());
    Some(JournalEntry { revision, resource, key: object.key(), object: Some(object) })
}

fn is_complete(object: &Object) -> bool {
    let version = object::version(object.resource_version());
    let has_version = version != 0 && object.resource_version() == version.to_string();
    has_version && !object.uid().is_empty() && object.at(&["metadata", "generation"]).is_some()
}

/// Fills in the fields that an API server sets and a trimmed snapshot lacks. `index` is the position of the object
/// in the snapshot.
pub(super) fn complete(object: &mut Object, index: usize) {
    let ordinal = u64::try_from(index).unwrap_or_default().saturating_add(1);
    let revision = match object::version(object.resource_version()) {
        0 => ordinal,
        version => version,
    };
    let uid = match object.uid() {
        "" => hex(Sha256::digest(object.reference().to_string())).chars().take(32).collect(),
        uid => uid.to_owned(),
    };
    let metadata = object.metadata_mut();
    metadata.insert("resourceVersion".into(), revision.to_string().into());
    metadata.insert("uid".into(), uid.into());
    metadata.entry("generation").or_insert(Value::from(1));
}
