//! The status of an Application on the hub, as the agent of its cluster reports it.

use serde_json::{Map, Value, json};

use super::work::{self, HEALTH, PHASE, REVISION, STARTED_AT, SYNC};
use api::argoproj::v1alpha1::Application;
use api::work::v1::ManifestWork;
use reconcile::Action;

/// Returns the write that updates the status of an Application and removes its operation, which the work now has;
/// `None` if nothing changes. Reports of an agent count once it has applied the work. Argo CD's definition has no
/// status subresource.
pub(super) fn write(application: &Application, work: Option<&ManifestWork>) -> Option<Action> {
    let status = work.filter(|work| work::is_applied(work)).map_or_else(unknown, reported);
    let mut patch = difference(application, status);
    if application.field("operation").is_some() {
        patch.insert("operation".into(), Value::Null);
    }
    (!patch.is_empty()).then(|| Action::patch(application, patch))
}

/// Returns the write that resets the status to unknown and keeps the operation for the next work; `None` if the
/// status already says so.
pub(super) fn write_unknown(application: &Application) -> Option<Action> {
    let patch = difference(application, unknown());
    (!patch.is_empty()).then(|| Action::patch(application, patch))
}

/// Returns the patch with the missing parts of a status; empty if the Application has all of them.
fn difference(application: &Application, status: Map<String, Value>) -> Map<String, Value> {
    let status = Value::Object(status);
    let live = application.field("status").unwrap_or(&Value::Null);
    let mut patch = Map::new();
    if !has(live, &status) {
        patch.insert("status".into(), status);
    }
    patch
}

/// Returns the status fields of an Application that its cluster has not applied yet.
fn unknown() -> Map<String, Value> {
    let fields = [("health", "Progressing"), ("sync", "Unknown")];
    fields.into_iter().map(|(name, status)| (name.to_owned(), json!({"status": status}))).collect()
}

/// Returns true if a value has all fields of another.
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

/// Returns the status fields that a work reports. Argo CD's definition rejects a sync without a status, and an
/// operation state without a phase and time.
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
