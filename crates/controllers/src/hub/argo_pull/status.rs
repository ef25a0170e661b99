//! The status of an Application of the hub: what the agent of its cluster reports.

use serde_json::{Map, Value, json};

use super::work::{self, HEALTH, PHASE, REVISION, STARTED_AT, SYNC};
use api::argoproj::v1alpha1::Application;
use api::work::v1::ManifestWork;
use reconcile::Action;

/// Returns the write that brings the status of an Application up to date, and removes its operation, which
/// the work has; `None` where there is nothing to write. What an agent reports counts once it has applied the
/// work. Argo CD's definition has no subresource for the status.
pub(super) fn write(application: &Application, work: Option<&ManifestWork>) -> Option<Action> {
    let status = work.filter(|work| work::is_applied(work)).map_or_else(unknown, reported);
    let mut patch = difference(application, status);
    if application.field("operation").is_some() {
        patch.insert("operation".into(), Value::Null);
    }
    (!patch.is_empty()).then(|| Action::patch(application, patch))
}

/// Returns the write that says that nothing is known, and leaves the operation to the next work; `None` where
/// the status says so.
pub(super) fn write_unknown(application: &Application) -> Option<Action> {
    let patch = difference(application, unknown());
    (!patch.is_empty()).then(|| Action::patch(application, patch))
}

/// Returns the patch of an Application that lacks a part of a status; an empty one if it has all.
fn difference(application: &Application, status: Map<String, Value>) -> Map<String, Value> {
    let status = Value::Object(status);
    let live = application.field("status").unwrap_or(&Value::Null);
    let mut patch = Map::new();
    if !has(live, &status) {
        patch.insert("status".into(), status);
    }
    patch
}

/// Returns the part of a status that says that its cluster has not applied the Application yet.
fn unknown() -> Map<String, Value> {
    let fields = [("health", "Progressing"), ("sync", "Unknown")];
    fields.into_iter().map(|(name, status)| (name.to_owned(), json!({"status": status}))).collect()
}

/// Returns whether a value has all fields of another.
fn has(live: &Value, wanted: &Value) -> bool {
    match wanted {
        Value::Object(fields) => {
            fields.iter().all(|(name, value)| live.get(name).is_some_and(|live| has(live, value)))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            live == wanted
        }
    }
}

/// Returns the part of a status that a work reports. Argo CD's definition refuses a sync without its status,
/// and the state of an operation without its phase and time.
fn reported(work: &ManifestWork) -> Map<String, Value> {
    let manifest = work.status.as_ref().and_then(|status| status.resource_status.manifests.first());
    let values = manifest.map(|manifest| manifest.status_feedback.values.as_slice()).unwrap_or_default();
    let value = |name: &str| values.iter().find(|value| value.name == name)?.field_value.string.as_deref();
    let mut status = Map::new();
    if let Some(health) = value(HEALTH) {
        status.insert("health".into(), json!({"status": health}));
    }
    if let Some(sync) = value(SYNC) {
        let mut fields = Map::from_iter([("status".to_owned(), json!(sync))]);
        fields.extend(value(REVISION).map(|revision| ("revision".to_owned(), json!(revision))));
        status.insert("sync".into(), Value::Object(fields));
    }
    if let (Some(phase), Some(started_at)) = (value(PHASE), value(STARTED_AT)) {
        let state = json!({"operation": {}, "phase": phase, "startedAt": started_at});
        status.insert("operationState".into(), state);
    }
    status
}
