//! The objects of a fleet in the report, so that a plan needs only git.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::exceptions::shard;
use super::secrets::{self, HIDDEN, holds_secret};
use api::names::gitops_conditions::REPORTED;
use object::Object;

/// Directory of the snapshot in the directory of a report.
pub const SNAPSHOT: &str = "snapshot";
/// Most bytes of a snapshot: a fleet of some 8,000 clusters with an add-on. The operator writes it again with
/// every report.
const MAX_BYTES: usize = 64 << 20;
/// Most bytes of a file: a plan reads no larger one.
const MAX_FILE_BYTES: usize = 8 << 20;

/// Returns up to 16 files, by path, without the values of Secrets and without fields that change by
/// themselves; `None` if they would be too large. Each file is a list of objects, an object on each line. All
/// objects of a cluster are in one file, so that its change leaves the other files as they are.
pub fn snapshot(
    objects: impl IntoIterator<Item = Object>,
    now: Timestamp,
) -> Option<BTreeMap<String, String>> {
    let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut bytes = 0;
    for object in objects {
        let path = path(&object);
        let line = serde_json::to_string(&stripped(object, now)).ok()?;
        bytes += line.len() + 2;
        if bytes > MAX_BYTES {
            return None;
        }
        files.entry(path).or_default().push(line);
    }
    let text = |mut lines: Vec<String>| {
        lines.sort();
        format!("{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n{}\n]}}\n", lines.join(",\n"))
    };
    let files: BTreeMap<_, _> = files.into_iter().map(|(path, lines)| (path, text(lines))).collect();
    files.values().all(|text| text.len() <= MAX_FILE_BYTES).then_some(files)
}

/// Returns whether a snapshot shows all of an object, because it holds no value of a Secret.
pub fn is_shown(object: &Object) -> bool {
    let mut shown = Value::Object(object.0.clone());
    hide(&mut shown, false);
    shown.as_object() == Some(&object.0)
}

/// Returns the file of an object. The namespace of a cluster has the name of the cluster.
fn path(object: &Object) -> String {
    let cluster = if object.namespace().is_empty() { object.name() } else { object.namespace() };
    format!("{SNAPSHOT}/{}.json", shard(cluster).get(..1).unwrap_or_default())
}

/// Returns an object without the values of Secrets, the fields that the API server counts up, the status of
/// the report, which changes with every report, the times of attempts that fail again, and the end of a score
/// that is valid: scores are renewed every few minutes, and a plan that is made later takes what was valid
/// with the report for valid.
fn stripped(mut object: Object, now: Timestamp) -> Value {
    for counted in ["managedFields", "resourceVersion"] {
        object.metadata_mut().remove(counted);
    }
    if object.kind() == "ConfigRepo"
        && let Some(Value::Object(status)) = object.0.get_mut("status")
    {
        status.remove("report");
        if let Some(Value::Object(commit_status)) = status.get_mut("commitStatus") {
            commit_status.remove("time");
        }
        if let Some(Value::Array(conditions)) = status.get_mut("conditions") {
            conditions.retain(|condition| condition.get("type").is_none_or(|type_| type_ != REPORTED));
        }
    }
    if object.kind() == "RolloutPolicy"
        && let Some(Value::Object(status)) = object.0.get_mut("status")
        && let Some(Value::Array(refused)) = status.get_mut("refused")
    {
        for record in refused.iter_mut().filter_map(Value::as_object_mut) {
            // The field is required, and it changes with each attempt.
            if let Some(since) = record.get("since").cloned() {
                record.insert("tried".into(), since);
            }
        }
    }
    if object.kind() == "AddOnPlacementScore"
        && let Some(Value::Object(status)) = object.0.get_mut("status")
        && until(status).is_some_and(|until| until >= now)
    {
        status.remove(UNTIL);
    }
    let mut value = object.into_value();
    hide(&mut value, false);
    value
}

/// The field of a score that says until when it is valid.
const UNTIL: &str = "validUntil";

fn until(status: &Map<String, Value>) -> Option<Timestamp> {
    status.get(UNTIL)?.as_str()?.parse().ok()
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

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn of(value: Value) -> String {
        snapshot([Object::from_value(value).unwrap()], NOW).unwrap().into_values().collect()
    }

    fn config_map(cluster: usize, size: usize) -> Object {
        let metadata = json!({"name": "m", "namespace": format!("cluster-{cluster}")});
        let data = json!({"k": "x".repeat(size)});
        Object::from_value(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}),
        )
        .unwrap()
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
    fn an_object_with_a_value_of_a_secret_is_not_shown() {
        let template = |kind: &str| {
            let manifest = json!({"apiVersion": "v1", "kind": kind, "data": {"k": "dG9wc2VjcmV0"}});
            let spec = json!({"agentSpec": {"workload": {"manifests": [manifest]}}});
            let template =
                json!({"apiVersion": "a/v1", "kind": "T", "metadata": {"name": "t"}, "spec": spec});
            Object::from_value(template).unwrap()
        };
        assert!(is_shown(&template("ConfigMap")));
        assert!(!is_shown(&template("Secret")));
    }

    #[test]
    fn a_report_does_not_make_the_next_one_new() {
        let repo = |time: &str, version: &str| {
            of(json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo",
                "metadata": {"name": "r", "resourceVersion": version},
                "status": {"report": {"branch": "b", "time": time}, "commitStatus": {"commit": "c", "time": time}, "conditions": [{"type": "Ready"}, {"type": "Reported", "lastTransitionTime": time}]}}))
        };
        assert_eq!(repo("2026-01-01T00:00:00Z", "1"), repo("2026-01-02T00:00:00Z", "2"));
        assert!(repo("2026-01-01T00:00:00Z", "1").contains("Ready"));
    }

    #[test]
    fn an_add_on_that_is_refused_again_changes_nothing() {
        let policy = |tried: &str| {
            let refused =
                json!({"addOn": "a", "cluster": "c1", "since": "2026-01-01T00:00:00Z", "tried": tried});
            of(json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy",
                "metadata": {"name": "p"}, "status": {"refused": [refused]}}))
        };
        let told = policy("2026-01-01T00:01:00Z");
        assert_eq!(told, policy("2026-01-01T00:02:00Z"));
        assert!(told.contains("\"cluster\":\"c1\"") && told.contains("\"tried\""), "{told}");
    }

    #[test]
    fn a_score_that_is_only_renewed_changes_nothing_and_one_that_has_ended_stays_so() {
        let score = |until: &str| {
            of(
                json!({"apiVersion": "cluster.open-cluster-management.io/v1alpha1", "kind": "AddOnPlacementScore",
                "metadata": {"name": "s", "namespace": "c1"}, "status": {"scores": [{"name": "cpu", "value": 7}], "validUntil": until}}),
            )
        };
        let valid = score("1970-01-01T00:05:00Z");
        assert_eq!(valid, score("1970-01-01T00:10:00Z"));
        assert!(valid.contains("cpu") && !valid.contains("validUntil"), "{valid}");
        assert!(score("1969-12-31T23:59:59Z").contains("validUntil"));
    }

    #[test]
    fn a_fleet_that_is_too_large_has_no_snapshot() {
        assert!(snapshot((0..6_000).map(|number| config_map(number, 10_000)), NOW).is_some());
        assert!(snapshot((0..7_000).map(|number| config_map(number, 10_000)), NOW).is_none());
        assert!(snapshot((0..8).map(|_| config_map(0, 1 << 20)), NOW).is_none(), "a file of more than 8 MiB");
    }

    #[test]
    fn a_change_of_a_cluster_changes_one_file_of_sixteen() {
        let fleet = |size: usize| {
            let objects = (0..500).map(|number| config_map(number, if number == 7 { size } else { 1 }));
            snapshot(objects, NOW).unwrap()
        };
        let (before, after) = (fleet(1), fleet(2));
        let changed = before.iter().filter(|(path, text)| after[*path] != **text).count();
        assert_eq!((before.len(), after.len(), changed), (16, 16, 1));
        let objects: usize = after.values().map(|text| text.matches("ConfigMap").count()).sum();
        assert_eq!(objects, 500);
    }
}
