//! Reads individual live objects of kinds without a type here.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use engine::klusterlet::is_drained;
use object::{Gvk, Key, Object, ObjectRef};
use reconcile::{Action, Precondition, Read, Site, Subresource, View};

/// Objects that are read together: the first plan requests all of them, and a later one has all answers.
pub(super) struct LiveObjects(BTreeMap<ObjectRef, Arc<Object>>);

impl LiveObjects {
    pub(super) fn read(view: &impl View, targets: impl IntoIterator<Item = ObjectRef>) -> Read<Self> {
        let answers: Vec<Read<_>> = targets
            .into_iter()
            .map(|target| view.object(&target).map(|found| found.map(|object| (target, object))))
            .collect();
        let found = answers.into_iter().collect::<Read<Vec<_>>>()?;
        Ok(Self(found.into_iter().flatten().collect()))
    }

    pub(super) fn get(&self, target: &ObjectRef) -> Option<&Object> {
        self.0.get(target).map(Arc::as_ref)
    }
}

/// Returns a reference to an object.
pub(super) fn reference(api_version: &str, kind: &str, key: Key) -> ObjectRef {
    ObjectRef { gvk: Gvk::parse(api_version, kind), key }
}

/// Deletes an object, if it is still the one that was read.
pub(super) fn delete(object: &Object) -> Action {
    Action::Delete {
        site: Site::Hub,
        target: object.reference(),
        precondition: Precondition { uid: object.uid().to_owned(), resource_version: String::new() },
        orphan: false,
        impersonate: None,
    }
}

/// Merge-patches an object, if it has not changed since it was read.
pub(super) fn merge(object: &Object, patch: Map<String, Value>) -> Action {
    Action::Patch {
        site: Site::Hub,
        target: object.reference(),
        subresource: Subresource::None,
        patch,
        precondition: Precondition {
            uid: object.uid().to_owned(),
            resource_version: object.resource_version().to_owned(),
        },
        impersonate: None,
    }
}

/// Scales a Deployment to zero, and deletes it when its pods have ended. If it were just deleted, its pods could
/// still run alongside its successor's.
pub(super) fn drain(deployment: &Object) -> Option<Action> {
    if deployment.is_terminating() {
        return None;
    }
    if is_drained(deployment) {
        return Some(delete(deployment));
    }
    let replicas = deployment.at(&["spec", "replicas"]).and_then(Value::as_i64);
    let patch = json!({"spec": {"replicas": 0}}).as_object().cloned().unwrap_or_default();
    (replicas != Some(0)).then(|| merge(deployment, patch))
}

/// Describes what the installation waits for while Deployments are drained.
pub(super) fn replacement_wait(drained: &[&Object]) -> Option<String> {
    let first = drained.first()?.reference();
    Some(format!("replacing {first}: waiting for its pods to end before the new ones start"))
}
