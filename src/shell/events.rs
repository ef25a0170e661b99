//! Records notes as events.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder};
use tracing::debug;

use crate::reconcile::{Note, NoteType};

/// Records notes; an event that cannot be recorded is lost, because nothing may depend on one.
pub(super) async fn record(recorder: &Recorder, notes: Vec<Note>) {
    for Note { regarding, uid, note_type, reason, action, message } in notes {
        let reference = ObjectReference {
            api_version: Some(regarding.gvk.api_version()),
            kind: Some(regarding.gvk.kind.clone()),
            namespace: (!regarding.key.namespace.is_empty()).then(|| regarding.key.namespace.clone()),
            name: Some(regarding.key.name.clone()),
            uid: Some(uid),
            ..ObjectReference::default()
        };
        let type_ = match note_type {
            NoteType::Normal => EventType::Normal,
            NoteType::Warning => EventType::Warning,
        };
        let event = Event { type_, reason, note: Some(message), action, secondary: None };
        if let Err(error) = recorder.publish(&event, &reference).await {
            debug!(%regarding, %error, "event not recorded");
        }
    }
}
