//! The objects of the hub side, and the OCM objects that they replace.

use serde_json::{Map, Value, json};

use super::{ClusterManagerSettings, NAMESPACE};
use crate::installation::{self, InstallationError, MANAGED_BY};
use crate::klusterlet::with_digest;
use crate::registration::rbac::{BOOTSTRAP_ROLE, RBAC};
use api::names::AUTO_APPROVE_BINDING;
use object::{Gvk, Key, Object, ObjectRef};

/// The value of the label [`MANAGED_BY`] on all objects of a ClusterManager.
pub const OWNER: &str = "wheelwright-registration-operator";

/// Returns the objects of the hub side in the order in which to apply them, with the Deployment last.
///
/// # Errors
/// Fails if the embedded chart is invalid, which is a bug.
pub fn objects(settings: &ClusterManagerSettings) -> Result<Vec<Object>, InstallationError> {
    let mut objects = installation::manifests(NAMESPACE, &settings.options, OWNER)?;
    let deployment = objects.pop();
    if !settings.auto_approved.is_empty() {
        objects.extend(Object::from_value(auto_approval(&settings.auto_approved)).ok());
    }
    objects.extend(deployment.map(|deployment| placed(deployment, settings)));
    // The namespace may belong to another owner, so it is only created.
    let finish = |object: Object| if object.kind() == "Namespace" { object } else { with_digest(object) };
    Ok(objects.into_iter().map(finish).collect())
}

/// Returns the permissions for users whose clusters join without an approval.
fn auto_approval(users: &[String]) -> Value {
    let subjects: Vec<_> =
        users.iter().map(|user| json!({"apiGroup": RBAC, "kind": "User", "name": user})).collect();
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding",
        "metadata": {
            "name": AUTO_APPROVE_BINDING, "labels": {MANAGED_BY: OWNER},
        },
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": BOOTSTRAP_ROLE},
        "subjects": subjects,
    })
}

fn placed(mut deployment: Object, settings: &ClusterManagerSettings) -> Object {
    let spec = deployment.field_mut("spec");
    let Some(pod) =
        spec.get_mut("template").and_then(|template| template.pointer_mut("/spec")?.as_object_mut())
    else {
        return deployment;
    };
    if !settings.node_placement.node_selector.is_empty() {
        pod.insert("nodeSelector".into(), json!(settings.node_placement.node_selector));
    }
    if !settings.node_placement.tolerations.is_empty() {
        pod.insert("tolerations".into(), json!(settings.node_placement.tolerations));
    }
    if let (Some(resources), Some(Value::Array(containers))) =
        (&settings.resources, pod.get_mut("containers"))
    {
        for container in containers.iter_mut().filter_map(Value::as_object_mut) {
            container.insert("resources".into(), json!(resources));
        }
    }
    deployment
}

/// Returns the Deployments and webhooks of OCM's hub side, which would run alongside ours.
pub fn replaced(name: &str) -> (Vec<ObjectRef>, Vec<ObjectRef>) {
    const PARTS: [&str; 8] = [
        "registration-controller",
        "registration-webhook",
        "placement-controller",
        "work-controller",
        "work-webhook",
        "addon-manager-controller",
        "addon-webhook",
        "grpc-server",
    ];
    let deployment = |part| ObjectRef {
        gvk: Gvk::parse("apps/v1", "Deployment"),
        key: Key::namespaced(NAMESPACE, format!("{name}-{part}")),
    };
    let webhook = |kind, name: &str| ObjectRef {
        gvk: Gvk::parse("admissionregistration.k8s.io/v1", kind),
        key: Key::cluster(name),
    };
    let validating = "ValidatingWebhookConfiguration";
    let webhooks = vec![
        webhook(validating, "managedclustervalidators.admission.cluster.open-cluster-management.io"),
        webhook(
            validating,
            "managedclustersetbindingvalidators.admission.cluster.open-cluster-management.io",
        ),
        webhook(validating, "manifestworkvalidators.admission.work.open-cluster-management.io"),
        webhook(
            "MutatingWebhookConfiguration",
            "managedclustermutators.admission.cluster.open-cluster-management.io",
        ),
    ];
    (PARTS.into_iter().map(deployment).collect(), webhooks)
}

/// Returns a merge patch that points a definition's conversion webhook from OCM's hub side, which is removed, to
/// our Service. Requests for versions that are not stored fail until our operator serves the webhook and enters
/// its CA. Without a webhook, they would lose fields.
pub fn with_our_webhook(ours: &Key, definition: &Object) -> Option<Map<String, Value>> {
    let service = definition.at(&["spec", "conversion", "webhook", "clientConfig", "service"])?;
    let is_addon_webhook = service["name"].as_str().is_some_and(|name| name.ends_with("-addon-webhook"));
    let is_theirs = service["namespace"] == NAMESPACE && is_addon_webhook;
    let client = json!({"service": {"namespace": ours.namespace, "name": ours.name}});
    let patch = json!({"spec": {"conversion": {"webhook": {"clientConfig": client}}}});
    is_theirs.then(|| patch.as_object().cloned()).flatten()
}

/// Returns a merge patch that removes the hub side's conversion webhook from a definition. Otherwise, requests
/// for the kind would fail after the hub side is removed.
pub fn without_webhook(definition: &Object) -> Option<Map<String, Value>> {
    let service = definition.at(&["spec", "conversion", "webhook", "clientConfig", "service"])?;
    if service["namespace"] != NAMESPACE {
        return None;
    }
    let mut versions = definition.at(&["spec", "versions"])?.clone();
    for version in versions.as_array_mut()?.iter_mut().filter_map(Value::as_object_mut) {
        let is_stored = version.get("storage").cloned().unwrap_or_default();
        version.insert("served".into(), is_stored);
    }
    let conversion = json!({"strategy": "None", "webhook": null});
    json!({"spec": {"conversion": conversion, "versions": versions}}).as_object().cloned()
}
