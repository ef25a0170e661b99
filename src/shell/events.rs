//! Records notes as events.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder};
use tracing::debug;

use object::ObjectRef;
use reconcile::{Note, NoteType};

/// Records notes; an event that cannot be recorded is lost, because nothing may depend on one.
pub(super) async fn record(recorder: &Recorder, notes: Vec<Note>) {
    for Note { regarding, uid, related, note_type, reason, action, message } in notes {
        let secondary = related.map(|(object, uid)| reference(&object, uid));
        let type_ = match note_type {
            NoteType::Normal => EventType::Normal,
            NoteType::Warning => EventType::Warning,
        };
        let event = Event { type_, reason, note: Some(message), action, secondary };
        if let Err(error) = recorder.publish(&event, &reference(&regarding, uid)).await {
            debug!(%regarding, %error, "event not recorded");
        }
    }
}

fn reference(object: &ObjectRef, uid: String) -> ObjectReference {
    ObjectReference {
        api_version: Some(object.gvk.api_version()),
        kind: Some(object.gvk.kind.clone()),
        namespace: (!object.key.namespace.is_empty()).then(|| object.key.namespace.clone()),
        name: Some(object.key.name.clone()),
        uid: (!uid.is_empty()).then_some(uid),
        ..ObjectReference::default()
    }
}
