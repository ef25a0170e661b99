//! Detects writes that an API server accepts but changes: someone's mutating webhook undoes them, at least in
//! part, before they are stored.
//!
//! Without this, the next plan of the key would repeat the writes, and so on forever. A key whose plans repeat
//! each other waits as if its writes had failed.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::{Action, Failure, FailureKind};
use object::Key;
use object::duration::later;

/// The time after a wait in which the same writes count as a repetition. Our own writes wake a key within this
/// time; writes that repeat an older one have another cause.
const REPETITION: SignedDuration = SignedDuration::from_secs(1);

/// The number of consecutive repetitions to ignore: a late answer, or a change in between, may cause some.
const TOLERATED: u32 = 5;

/// The hash of the writes of a reconciliation, without times and preconditions; `None` if there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WrittenContent(Option<u64>);

/// The last writes of each key, if its last reconciliation had any.
#[derive(Default)]
pub(super) struct LastWrites {
    by_key: BTreeMap<Key, LastWrite>,
}

struct LastWrite {
    content: WrittenContent,
    /// When the key could next be planned.
    until: Timestamp,
    /// The number of times that the content was written again.
    repetitions: u32,
}

impl WrittenContent {
    /// Hashes writes. They may be many and large, so decisions call this on their threads.
    pub(super) fn of<'a>(actions: impl IntoIterator<Item = &'a Action>) -> Self {
        let mut all = Self::default();
        for action in actions {
            // The object is not copied.
            let (head, object) = match action {
                Action::Apply { site, object, force, manager, impersonate, dry_run } => {
                    (json!(["apply", site, force, manager, impersonate, dry_run]), Some(object))
                }
                Action::Create { site, object, impersonate } => {
                    (json!(["create", site, impersonate]), Some(object))
                }
                Action::Replace { site, object } => (json!(["replace", site]), Some(object)),
                Action::Patch { .. }
                | Action::Delete { .. }
                | Action::Push(_)
                | Action::SetCommitStatus(_) => (serde_json::to_value(action).unwrap_or_default(), None),
            };
            let mut hasher = DefaultHasher::new();
            hash(&head, &mut hasher);
            if let Some(object) = object {
                hash_fields(&object.0, &mut hasher);
            }
            all.add(Self(Some(hasher.finish())));
        }
        all
    }

    /// Appends the hash of further writes.
    pub(super) fn add(&mut self, Self(next): Self) {
        let Some(next) = next else { return };
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.0.unwrap_or_default());
        hasher.write_u64(next);
        self.0 = Some(hasher.finish());
    }
}

fn hash(value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Object(fields) => hash_fields(fields, hasher),
        Value::Array(items) => {
            hasher.write_usize(items.len());
            items.iter().for_each(|item| hash(item, hasher));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.hash(hasher),
    }
}

/// Hashes fields, except those that differ between two writes of the same content.
fn hash_fields(fields: &Map<String, Value>, hasher: &mut DefaultHasher) {
    let differs = |field: &str| matches!(field, "precondition" | "resourceVersion" | "lastTransitionTime");
    let same = fields.iter().filter(|(field, _)| !differs(field));
    hasher.write_usize(same.clone().count());
    for (field, value) in same {
        field.hash(hasher);
        hash(value, hasher);
    }
}

impl LastWrites {
    /// Records the writes of a reconciliation. Returns a failure if they repeat the writes just before, and more
    /// often than is tolerated.
    pub(super) fn record(
        &mut self,
        key: &Key,
        content: WrittenContent,
        began: Timestamp,
        now: Timestamp,
    ) -> Option<Failure> {
        let last = self.by_key.remove(key);
        if content == WrittenContent::default() {
            return None;
        }
        let repeated = last.filter(|last| last.content == content && began <= later(last.until, REPETITION));
        let repetitions = repeated.map_or(0, |last| last.repetitions.saturating_add(1));
        self.by_key.insert(key.clone(), LastWrite { content, until: now, repetitions });
        (repetitions > TOLERATED).then(failure)
    }

    /// Records how long a key waits.
    pub(super) fn waits(&mut self, key: &Key, until: Timestamp) {
        if let Some(last) = self.by_key.get_mut(key) {
            last.until = until;
        }
    }
}

/// Returns the failure of a reconciliation that repeats the writes before it.
fn failure() -> Failure {
    let message = "the API server stored different values than were written; another mutating webhook may be changing them";
    Failure { kind: FailureKind::FieldConflict, message: message.into() }
}
