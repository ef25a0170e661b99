//! The defaults and checks of pods, including the pod templates of workloads.

use serde_json::{Map, Value};

use crate::FieldError;
use object::Object;

/// The defaults of a workload without a template.
pub(super) const TEMPLATE: &[(&str, &str)] =
    &[("spec", r#"{"template":{"metadata":{},"spec":{"containers":null}}}"#)];

/// The fixed defaults of a pod.
pub(super) const DEFAULTS: &[(&str, &str, &str)] = &[
    ("core.v1.PodSpec", "restartPolicy", r#""Always""#),
    ("core.v1.PodSpec", "terminationGracePeriodSeconds", "30"),
    ("core.v1.PodSpec", "dnsPolicy", r#""ClusterFirst""#),
    ("core.v1.PodSpec", "securityContext", "{}"),
    ("core.v1.PodSpec", "schedulerName", r#""default-scheduler""#),
    ("core.v1.Container", "resources", "{}"),
    ("core.v1.Container", "terminationMessagePath", r#""/dev/termination-log""#),
    ("core.v1.Container", "terminationMessagePolicy", r#""File""#),
    ("core.v1.ContainerPort", "protocol", r#""TCP""#),
    ("core.v1.Probe", "timeoutSeconds", "1"),
    ("core.v1.Probe", "periodSeconds", "10"),
    ("core.v1.Probe", "successThreshold", "1"),
    ("core.v1.Probe", "failureThreshold", "3"),
    ("core.v1.HTTPGetAction", "path", r#""/""#),
    ("core.v1.HTTPGetAction", "scheme", r#""HTTP""#),
    ("core.v1.ObjectFieldSelector", "apiVersion", r#""v1""#),
    ("core.v1.ConfigMapVolumeSource", "defaultMode", "420"),
    ("core.v1.SecretVolumeSource", "defaultMode", "420"),
    ("core.v1.ProjectedVolumeSource", "defaultMode", "420"),
    ("core.v1.DownwardAPIVolumeSource", "defaultMode", "420"),
    ("core.v1.ServiceAccountTokenProjection", "expirationSeconds", "3600"),
    ("core.v1.HostPathVolumeSource", "type", r#""""#),
];

/// Sets the default image pull policies of a pod: images with no tag or `latest` are always pulled.
pub(super) fn fill(object: &mut Object, pointer: &str) {
    let Some(pod) = pod_mut(object, pointer) else { return };
    for list in ["initContainers", "containers"] {
        let containers = pod.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
            let name = image.rsplit('/').next().unwrap_or_default();
            let latest = !image.contains('@') && name.split_once(':').is_none_or(|(_, tag)| tag == "latest");
            let policy = if latest { "Always" } else { "IfNotPresent" };
            container.entry("imagePullPolicy").or_insert_with(|| policy.into());
        }
    }
}

/// Checks what Deployments and similar kinds have in common: the selector matches the template and is immutable.
pub(super) fn check_workload(old: Option<&Object>, new: &Object, errors: &mut Vec<FieldError>) {
    check_template(new, errors);
    super::checks::check_unchanged(old, new, &["spec", "selector"], errors);
}

fn check_template(object: &Object, errors: &mut Vec<FieldError>) {
    let empty = Value::Null;
    let labels = object.at(&["spec", "template", "metadata", "labels"]).unwrap_or(&empty);
    let wanted = object.at(&["spec", "selector", "matchLabels"]).and_then(Value::as_object);
    let differs = wanted.into_iter().flatten().any(|(key, value)| labels.get(key) != Some(value));
    let selector = object.at(&["spec", "selector"]).and_then(Value::as_object);
    if differs || selector.is_none_or(Map::is_empty) {
        if selector.is_some_and(Map::is_empty) {
            errors.push(FieldError::invalid(
                "spec.selector",
                &Value::Object(Map::new()),
                "empty selector is invalid for deployment",
            ));
        }
        errors.push(FieldError::invalid(
            "spec.template.metadata.labels",
            labels,
            "`selector` does not match template `labels`",
        ));
    }
    check_containers(object, "/spec/template/spec", errors);
}

/// Checks the containers of the pod at a JSON pointer.
pub(super) fn check_containers(object: &Object, pointer: &str, errors: &mut Vec<FieldError>) {
    let path = pointer.trim_start_matches('/').replace('/', ".");
    let spec = pod(object, pointer);
    let containers = spec.and_then(|spec| spec.get("containers")).and_then(Value::as_array);
    if containers.is_none_or(Vec::is_empty) {
        errors.push(FieldError::required(format!("{path}.containers"), ""));
    }
    let mut names = std::collections::BTreeSet::new();
    for (i, container) in containers.into_iter().flatten().enumerate() {
        let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
        if name.is_empty() {
            errors.push(FieldError::required(format!("{path}.containers[{i}].name"), ""));
        } else if !names.insert(name) {
            errors.push(FieldError::duplicate(format!("{path}.containers[{i}].name"), &name.into()));
        }
        if container.get("image").and_then(Value::as_str).is_none_or(str::is_empty) {
            errors.push(FieldError::required(format!("{path}.containers[{i}].image"), ""));
        }
    }
}

/// Returns the pod at a JSON pointer whose first step is `spec`.
fn pod<'a>(object: &'a Object, pointer: &str) -> Option<&'a Value> {
    object.0.get("spec")?.pointer(pointer.strip_prefix("/spec")?)
}

fn pod_mut<'a>(object: &'a mut Object, pointer: &str) -> Option<&'a mut Map<String, Value>> {
    object.0.get_mut("spec")?.pointer_mut(pointer.strip_prefix("/spec")?)?.as_object_mut()
}
