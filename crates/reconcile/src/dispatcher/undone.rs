//! Detects writes that others undo, at least in part: a mutating webhook changes them before they are stored, or
//! another client changes the object right after each write.
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
/// time, and so does a client that undoes them at once; writes that repeat an older one have another cause.
const REPETITION: SignedDuration = SignedDuration::from_secs(3);

/// The number of consecutive repetitions to ignore: a late answer, or a change in between, may cause some.
const TOLERATED: u32 = 5;

/// The hash of the writes of a reconciliation, without times and preconditions; `None` if there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WrittenContent(Option<u64>);

/// The last writes of each key, as long as they can be repeated.
///
/// A plan and a status without a plan are recorded separately: between two equal plans, the status may report what
/// the other client did.
#[derive(Default)]
pub(super) struct LastWrites {
    plans: RecentWrites,
    statuses: RecentWrites,
}

#[derive(Default)]
struct RecentWrites {
    by_key: BTreeMap<Key, LastWrite>,
    /// When the writes that can no longer be repeated were dropped.
    pruned: Option<Timestamp>,
}

/// The writes of a reconciliation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// The writes of a plan. Its status is left out, because it describes what the writes found.
    Plan(WrittenContent),
    /// The status, if there was nothing else to write.
    Status(WrittenContent),
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
    pub(super) fn from_actions<'a>(actions: impl IntoIterator<Item = &'a Action>) -> Self {
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
                | Action::SetCommitStatus(_)
                | Action::Notify(_) => (serde_json::to_value(action).unwrap_or_default(), None),
            };
            let mut hasher = DefaultHasher::new();
            hash(&head, &mut hasher);
            if let Some(object) = object {
                hash_fields(&object.0, &mut hasher);
            }
            hasher.write_u64(all.0.unwrap_or_default());
            all.0 = Some(hasher.finish());
        }
        all
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
        written: &Written,
        began: Timestamp,
        now: Timestamp,
    ) -> Option<Failure> {
        let (recent, content) = self.slot(written);
        if *content == WrittenContent::default() {
            return None;
        }
        recent.prune(began);
        let last = recent.by_key.get(key).filter(|last| last.may_be_repeated(began));
        let repeated = last.filter(|last| last.content == *content);
        let repetitions = repeated.map_or(0, |last| last.repetitions.saturating_add(1));
        recent.by_key.insert(key.clone(), LastWrite { content: content.clone(), until: now, repetitions });
        (repetitions > TOLERATED).then(failure)
    }

    /// Records how long a key waits after these writes.
    pub(super) fn waits(&mut self, key: &Key, written: &Written, until: Timestamp) {
        if let Some(last) = self.slot(written).0.by_key.get_mut(key) {
            last.until = until;
        }
    }

    fn slot<'a>(&mut self, written: &'a Written) -> (&mut RecentWrites, &'a WrittenContent) {
        match written {
            Written::Plan(content) => (&mut self.plans, content),
            Written::Status(content) => (&mut self.statuses, content),
        }
    }
}

impl RecentWrites {
    /// Drops the writes that can no longer be repeated, at most once in that time: a walk for each write would make
    /// a burst of writes quadratic.
    fn prune(&mut self, now: Timestamp) {
        let is_due = |pruned: Timestamp| now < pruned || now > later(pruned, REPETITION);
        if self.pruned.is_none_or(is_due) {
            self.by_key.retain(|_, last| last.may_be_repeated(now));
            self.pruned = Some(now);
        }
    }
}

impl LastWrite {
    fn may_be_repeated(&self, now: Timestamp) -> bool {
        now <= later(self.until, REPETITION)
    }
}

/// Returns the failure of a reconciliation that repeats the writes before it.
fn failure() -> Failure {
    let message = "the objects do not keep the values that were written; another client or a mutating webhook keeps changing them";
    Failure { kind: FailureKind::FieldConflict, message: message.into() }
}
