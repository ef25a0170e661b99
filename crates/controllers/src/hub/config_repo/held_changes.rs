//! The changes of a plan that waits for an approval: its objects, and their fields within a size limit.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::definitions;
use super::policy::sync_policy;
use super::read::Commit;
use super::status::{MAX_LISTED, count};
use api::gitops::v1alpha1::{ChangedField, HeldChanges, InventoryEntry, ListedObjects, SharedChange};
use api::names::CONFIG_REPO_MANAGER;
use engine::changes::{FieldChange, changes_of_apply, fields_of_new};
use engine::report::secrets::HIDDEN;
use engine::sync::{ApplyRule, Desired, DesiredObject, IgnoreRule, ObjectId, SyncPlan, is_marked};
use object::text::{clip, plain};
use object::{Gvk, Key, Object, hex};
use reconcile::View;

/// Maximum size of the changed fields of a plan, in bytes of JSON. A person reads no more, and every cache of
/// ConfigRepos has them.
const MAX_BYTES: usize = 16 << 10;
/// Maximum number of objects per list whose fields are compared, about 50 ms of work.
const MAX_COMPARED: usize = 1_000;
/// Maximum number of different changes per list.
const MAX_CHANGES: usize = 20;
/// Maximum number of fields per change.
const MAX_FIELDS: usize = 20;
/// Maximum length of a path or a value, in characters.
const MAX_VALUE: usize = 200;
/// Maximum length of the part of a value that is searched for a difference, in characters.
const MAX_SEARCHED: usize = 4_000;
/// Number of equal characters before the difference of two long values.
const MAX_EQUAL: usize = 40;

/// Lists the changes that a commit makes to objects of the hub. `sync` is the plan of a commit without problems.
///
/// Drift does not affect the lists of objects: an object counts as changed if another version of it was applied last.
/// Its fields are compared with the hub, because the apply overwrites drift.
pub(super) fn changes(commit: &Commit<'_>, sync: &SyncPlan<'_>, view: &impl View) -> HeldChanges {
    let ignore = sync_policy(commit.repo).map(|policy| policy.ignore).unwrap_or_default();
    let mut hub = Hub { commit, view, repo: Key::of(commit.repo), ignore, schemas: BTreeMap::new() };
    let (mut new, mut existing) = (Vec::new(), Vec::new());
    for wanted in &commit.desired.objects {
        let live = hub.live(wanted);
        let is_left = match wanted.apply {
            ApplyRule::Ignore => true,
            ApplyRule::IfNotPresent => live.is_some(),
            ApplyRule::Always | ApplyRule::Merge => false,
        };
        match live.filter(|_| hub.is_recorded(wanted)) {
            _ if is_left => {}
            None => new.push(wanted.as_ref()),
            Some(live) if wanted.is_last_applied(&live) => {}
            Some(_) => existing.push(wanted.as_ref()),
        }
    }
    hub.schemas = schemas(&commit.desired, &existing);
    let mut stays = commit.desired.ids();
    stays.extend(sync.hand_over.iter().map(|one| ObjectId::of(&one.target)));
    let deleted: Vec<_> = sync.inventory.keys().filter(|id| !stays.contains(*id)).cloned().collect();
    let mut room = MAX_BYTES;
    HeldChanges {
        changed: hub.with_fields(&existing, &mut room),
        created: hub.with_fields(&new, &mut room),
        deleted: listed(&deleted),
        ..HeldChanges::default()
    }
}

/// The objects of the hub that a commit is compared with.
struct Hub<'a, V> {
    commit: &'a Commit<'a>,
    view: &'a V,
    repo: Key,
    ignore: Vec<IgnoreRule>,
    /// The schemas of the kinds of changed objects, as far as the commit or we define them.
    schemas: BTreeMap<Gvk, Value>,
}

/// Returns the schemas of the kinds of objects that have a definition.
fn schemas(desired: &Desired, objects: &[&DesiredObject]) -> BTreeMap<Gvk, Value> {
    let kinds: BTreeSet<Gvk> = objects.iter().map(|wanted| wanted.object.gvk()).collect();
    let mut schemas = BTreeMap::new();
    for definition in definitions::all(desired).filter(|_| !kinds.is_empty()) {
        for kind in &kinds {
            if let Some(schema) = definitions::schema(&definition, kind) {
                schemas.entry(kind.clone()).or_insert_with(|| schema.clone());
            }
        }
    }
    schemas
}

impl<V: View> Hub<'_, V> {
    /// Returns the live object; `None` also if the commit defines its kind, which cannot be read yet.
    fn live(&self, wanted: &DesiredObject) -> Option<Arc<Object>> {
        self.view.observed(&wanted.reference).ok().flatten()
    }

    /// Returns true if the ConfigRepo has applied an object before.
    fn is_recorded(&self, wanted: &DesiredObject) -> bool {
        self.commit.recorded.objects.contains_key(&ObjectId::of(&wanted.reference))
    }

    /// Returns the fields that the apply of an object changes. Values of an object of others are not shown, because
    /// people who see the ConfigRepo may not see the object.
    fn fields(&self, wanted: &DesiredObject) -> Vec<FieldChange> {
        let live = self.live(wanted).filter(|live| self.is_recorded(wanted) && is_marked(live, &self.repo));
        match live {
            Some(live) => {
                let mut wanted = wanted.compared(&self.ignore);
                if let Some(schema) = self.schemas.get(&wanted.gvk()) {
                    definitions::fill_lists(wanted.to_mut(), schema);
                }
                changes_of_apply(&live, &wanted, CONFIG_REPO_MANAGER)
            }
            None => fields_of_new(&wanted.object),
        }
    }

    /// Returns objects with their changes, as far as there is room for these in the status; `None` if there are no
    /// objects.
    fn with_fields(&self, objects: &[&DesiredObject], room: &mut usize) -> Option<ListedObjects> {
        // A large commit has many fields, so only their digests are kept.
        let mut by_digest: BTreeMap<String, Vec<&DesiredObject>> = BTreeMap::new();
        for wanted in objects.iter().take(MAX_COMPARED) {
            by_digest.entry(self.digest(wanted)).or_default().push(wanted);
        }
        let mut alike: Vec<_> = by_digest.into_values().collect();
        alike.sort_by_key(|objects| Reverse(objects.len()));
        let mut changes = Vec::new();
        for objects in alike.iter().take(MAX_CHANGES) {
            let fields = objects.first().map(|wanted| self.fields(wanted)).unwrap_or_default();
            let change = shared_change(&fields, &ids(objects));
            let size = serde_json::to_vec(&change).map_or(usize::MAX, |bytes| bytes.len());
            if let Some(rest) = room.checked_sub(size) {
                *room = rest;
                changes.push(change);
            }
        }
        listed(&ids(objects)).map(|listed| ListedObjects { changes, ..listed })
    }

    /// Returns a digest of the fields that the apply of an object changes.
    fn digest(&self, wanted: &DesiredObject) -> String {
        let mut fields = serde_json::to_string(&self.fields(wanted)).unwrap_or_default();
        // Hidden values may differ.
        if fields.contains(HIDDEN) {
            fields.push_str(&wanted.reference.to_string());
        }
        hex(Sha256::digest(fields))
    }
}

fn ids(objects: &[&DesiredObject]) -> Vec<ObjectId> {
    objects.iter().map(|wanted| ObjectId::of(&wanted.reference)).collect()
}

/// Returns the first objects of a list and the total number; `None` if there are none.
fn listed(ids: &[ObjectId]) -> Option<ListedObjects> {
    let (total, objects) = first(ids);
    (total > 0).then(|| ListedObjects { total, objects, ..ListedObjects::default() })
}

/// Returns the number of objects, and the first of them.
fn first(ids: &[ObjectId]) -> (i32, Vec<InventoryEntry>) {
    (count(ids.len()), ids.iter().take(MAX_LISTED).map(|id| id.entry("")).collect())
}

fn shared_change(fields: &[FieldChange], ids: &[ObjectId]) -> SharedChange {
    let (total, objects) = first(ids);
    SharedChange {
        total,
        objects,
        fields: fields.iter().take(MAX_FIELDS).map(changed_field).collect(),
        more_fields: count(fields.len().saturating_sub(MAX_FIELDS)),
        ..SharedChange::default()
    }
}

/// Returns a change as text. Long values begin shortly before their difference.
fn changed_field(FieldChange { path, before, after }: &FieldChange) -> ChangedField {
    let (before, after) = (text(before.as_ref()), text(after.as_ref()));
    let equal = before.chars().zip(after.chars()).take_while(|(before, after)| before == after).count();
    let skipped = equal.saturating_sub(MAX_EQUAL);
    ChangedField {
        path: plain(path, MAX_VALUE),
        before: excerpt(&before, skipped),
        after: excerpt(&after, skipped),
        ..ChangedField::default()
    }
}

/// Returns a value as JSON without secrets; empty if there is none.
fn text(value: Option<&Value>) -> String {
    value.map(|value| plain(&value.to_string(), MAX_SEARCHED)).unwrap_or_default()
}

/// Returns a text that is not too long. Of a longer text, the first `skipped` characters are left out.
fn excerpt(text: &str, skipped: usize) -> String {
    if skipped == 0 || text.chars().count() <= MAX_VALUE {
        return clip(text, MAX_VALUE);
    }
    let rest = text.chars().skip(skipped);
    clip(&std::iter::once('…').chain(rest).collect::<String>(), MAX_VALUE)
}
