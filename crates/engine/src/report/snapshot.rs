//! The objects of a fleet in the report, so that a plan needs only git.

use serde_json::Value;

use super::secrets::{self, HIDDEN, holds_secret};
use api::names::gitops_conditions::REPORTED;
use object::Object;

/// Name of the file in the directory of a report.
pub const SNAPSHOT_FILE: &str = "snapshot.json";
/// Most bytes of a snapshot: a fleet of some 500 clusters. A larger snapshot would make every commit of a
/// report too large.
const MAX_BYTES: usize = 4 << 20;

/// Returns a list of objects, each on a line of its own, without the values of Secrets and without fields
/// that change by themselves; `None` if it would be too large.
pub fn snapshot(objects: impl IntoIterator<Item = Object>) -> Option<String> {
    let mut lines = Vec::new();
    let mut bytes = 0;
    for object in objects {
        let line = serde_json::to_string(&stripped(object)).ok()?;
        bytes += line.len() + 2;
        if bytes > MAX_BYTES {
            return None;
        }
        lines.push(line);
    }
    lines.sort();
    Some(format!("{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n{}\n]}}\n", lines.join(",\n")))
}

/// Returns an object without the values of Secrets, the fields that the API server counts up, and the status
/// of the report, which changes with every report.
fn stripped(mut object: Object) -> Value {
    for counted in ["managedFields", "resourceVersion"] {
        object.metadata_mut().remove(counted);
    }
    if object.kind() == "ConfigRepo"
        && let Some(Value::Object(status)) = object.0.get_mut("status")
    {
        status.remove("report");
        if let Some(Value::Array(conditions)) = status.get_mut("conditions") {
            conditions.retain(|condition| condition.get("type").is_none_or(|type_| type_ != REPORTED));
        }
    }
    let mut value = object.into_value();
    hide(&mut value, false);
    value
}

/// Hides the values of Secrets, also of those inside another object.
fn hide(value: &mut Value, is_hidden: bool) {
    match value {
        Value::Object(fields) => {
            let hidden: Vec<bool> = fields.keys().map(|field| secrets::is_hidden(fields, field)).collect();
            for (value, is_of_secret) in fields.values_mut().zip(hidden) {
                hide(value, is_hidden || is_of_secret);
            }
        }
        Value::Array(items) => {
            for item in items {
                hide(item, is_hidden);
            }
        }
        Value::String(text) if is_hidden || holds_secret(text) => HIDDEN.clone_into(text),
        Value::Bool(_) | Value::Number(_) if is_hidden => *value = HIDDEN.into(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(value: Value) -> String {
        snapshot([Object::from_value(value).unwrap()]).unwrap()
    }

    #[test]
    fn a_snapshot_has_no_value_of_a_secret() {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "dG9wc2VjcmV0"}, "stringData": {"l": "topsecret"}, "immutable": true});
        let text = format!("kind: Secret\nstringData: {{k: {}}}\n", "topsecret");
        let work = json!({"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork", "metadata": {"name": "w"},
            "spec": {"workload": {"manifests": [secret.clone(), {"apiVersion": "v1", "kind": "ConfigMap", "data": {"t": text, "plain": "seen"}}]}}});
        let text = of(work);
        assert!(!text.contains("topsecret") && !text.contains("dG9wc2VjcmV0"), "{text}");
        assert!(text.contains("\"plain\":\"seen\"") && text.contains("\"name\":\"s\""), "{text}");
        assert!(!of(secret).contains("dG9wc2VjcmV0"));
    }

    #[test]
    fn a_report_does_not_make_the_next_one_new() {
        let repo = |time: &str, version: &str| {
            of(json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo",
                "metadata": {"name": "r", "resourceVersion": version},
                "status": {"report": {"branch": "b", "time": time}, "conditions": [{"type": "Ready"}, {"type": "Reported", "lastTransitionTime": time}]}}))
        };
        assert_eq!(repo("2026-01-01T00:00:00Z", "1"), repo("2026-01-02T00:00:00Z", "2"));
        assert!(repo("2026-01-01T00:00:00Z", "1").contains("Ready"));
    }

    #[test]
    fn a_fleet_that_is_too_large_has_no_snapshot() {
        let object = |name: usize| {
            Object::from_value(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name.to_string()}, "data": {"k": "x".repeat(1000)}})).unwrap()
        };
        assert!(snapshot((0..1000).map(object)).is_some());
        assert!(snapshot((0..5000).map(object)).is_none());
    }
}
