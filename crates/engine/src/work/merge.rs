//! The strategy Update for objects that server-side apply refuses, because a list has two entries with one key.
//!
//! As in OCM, labels and annotations are merged, owners and finalizers are kept, and the manifest replaces all
//! other fields. For some kinds, only metadata changes. The differences are written as a merge patch, because
//! the agent may not `update`. Values that the cluster adds to the manifest are not drift. When a later manifest
//! can be applied, the created and merged fields are first converted to applied ones.

use serde_json::{Map, Value};

use super::decision::ApplyDecision;
use api::names::WORK_AGENT_MANAGER;
use object::fields::{Element, Manager, Operation, Owners, covers, has_entry_twice};
use object::quantity::nanos;
use object::{Object, merge_diff};

/// The fields that the manifest does not replace.
const KEPT: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];
/// The core kinds whose content OCM does not change after the creation.
const METADATA_ALONE: [&str; 3] = ["Namespace", "Pod", "ServiceAccount"];

/// The fields of built-in kinds that contain quantities at any level.
const QUANTITIES: [&str; 7] = ["capacity", "divisor", "hard", "limits", "overhead", "requests", "sizeLimit"];

/// Returns true if an object cannot be applied. This includes live objects with duplicate entries, because
/// applying a manifest without duplicates would leave those of an earlier one.
pub(super) fn is_needed(manifest: &Object, live: Option<&Object>, was_applied: bool) -> bool {
    has_entry_twice(manifest) || (!was_applied && live.is_some_and(has_entry_twice))
}

/// Returns managed fields that convert what the agent created or merged into applied fields, as in
/// `client-go/util/csaupgrade`, because an apply removes only applied fields. `None` if there are no such
/// fields. An entry with only metadata is unchanged.
pub(super) fn made_applied(live: &Object, manager: &str) -> Option<Vec<Value>> {
    let owners = Owners::read(live.at(&["metadata", "managedFields"]));
    let merges = Manager::new(Operation::Update, WORK_AGENT_MANAGER, live);
    let fields = owners.fields_of(&merges);
    let has_content = fields.elements().any(|(field, ..)| *field != Element::Field("metadata".into()));
    let time = live.at(&["metadata", "creationTimestamp"]).and_then(Value::as_str).unwrap_or_default();
    let to = Manager::new(Operation::Apply, manager, live);
    let given = has_content.then(|| owners.given(&to, |from| *from == merges, time));
    given.flatten().map(|owners| owners.to_values())
}

/// Decides about the content of an object that already has its owner.
pub(super) fn decide(manifest: Object, live: Option<&Object>, was_applied: bool) -> ApplyDecision {
    let Some(live) = live else { return ApplyDecision::Create(manifest) };
    let mut wanted = manifest;
    let keeps_content = live.api_version() == "v1" && METADATA_ALONE.contains(&live.kind());
    wanted.0.retain(|name, _| if keeps_content { name == "metadata" } else { name != "status" });
    wanted.metadata_mut().retain(|name, _| matches!(name.as_str(), "labels" | "annotations"));
    if was_applied && covers(live, &in_form_of(live, &wanted)) {
        return ApplyDecision::Leave;
    }
    let mut patch = Map::new();
    let metadata = merged(live.0.get("metadata"), wanted.0.get("metadata"));
    if let Some(metadata) = metadata {
        patch.insert("metadata".into(), metadata);
    }
    if !keeps_content {
        let (before, after) = (content(live), content(&wanted));
        if let Some(Value::Object(changes)) = merge_diff(&before, &after) {
            patch.extend(changes);
        }
    }
    if patch.is_empty() { ApplyDecision::Leave } else { ApplyDecision::Patch(patch) }
}

fn content(object: &Object) -> Value {
    let fields = object.0.iter().filter(|(name, _)| !KEPT.contains(&name.as_str()));
    Value::Object(fields.map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// Returns the merge patch that adds what `live` lacks. It removes nothing, because a null would.
fn merged(live: Option<&Value>, wanted: Option<&Value>) -> Option<Value> {
    let Some(Value::Object(fields)) = wanted else {
        return wanted.filter(|wanted| !wanted.is_null() && live != Some(*wanted)).cloned();
    };
    let differs = |(name, value): (&String, &Value)| {
        let live = live.and_then(|live| live.get(name));
        merged(live, Some(value)).map(|value| (name.clone(), value))
    };
    let patch: Map<String, Value> = fields.iter().filter_map(differs).collect();
    (!patch.is_empty()).then(|| patch.into())
}

/// Returns the wanted object with quantities in the form of the live one, because API servers write `1000m` as
/// `1`.
fn in_form_of(live: &Object, wanted: &Object) -> Object {
    let mut wanted = wanted.clone();
    for (name, value) in &mut wanted.0 {
        if let Some(live) = live.0.get(name) {
            use_form_of(live, value, false);
        }
    }
    wanted
}

fn use_form_of(live: &Value, wanted: &mut Value, is_quantity: bool) {
    match (live, wanted) {
        (Value::Object(live), Value::Object(fields)) => {
            for (name, value) in fields {
                if let Some(live) = live.get(name) {
                    use_form_of(live, value, is_quantity || QUANTITIES.contains(&name.as_str()));
                }
            }
        }
        (Value::Array(live), Value::Array(items)) => {
            for (place, item) in items.iter_mut().enumerate() {
                let name = item.get("name");
                let named = live.iter().find(|live| name.is_some() && live.get("name") == name);
                if let Some(live) = named.or_else(|| live.get(place)) {
                    use_form_of(live, item, is_quantity);
                }
            }
        }
        (Value::String(live), wanted @ (Value::String(_) | Value::Number(_))) if is_quantity => {
            let text = wanted.as_str().map_or_else(|| wanted.to_string(), str::to_owned);
            if nanos(live).is_some_and(|amount| nanos(&text) == Some(amount)) {
                *wanted = Value::String(live.clone());
            }
        }
        (_, _) => {}
    }
}
