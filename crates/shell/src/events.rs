//! Records events.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event as KubeEvent, EventType as KubeEventType, Recorder};
use tracing::debug;

use object::ObjectRef;
use reconcile::{Event, EventType};

/// Records events; an event that cannot be recorded is lost, because no decision depends on one.
pub(super) async fn record(recorder: &Recorder, events: Vec<Event>) {
    for Event { regarding, uid, related, event_type, reason, action, message } in events {
        let secondary = related.map(|(object, uid)| reference(&object, uid));
        let type_ = match event_type {
            EventType::Normal => KubeEventType::Normal,
            EventType::Warning => KubeEventType::Warning,
        };
        let event = KubeEvent { type_, reason, note: Some(message), action, secondary };
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
