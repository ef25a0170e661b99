//! The objects of a fleet in the report, so that a plan needs only git.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::alike::{Alike, AlikeWriter, fields_of};
use super::exceptions::shard;
use super::secrets::{self, HIDDEN, holds_secret};
use api::gitops::v1alpha1::ConfigRepo;
use api::names::CONFIG_REPO_ANNOTATION;
use api::names::gitops_conditions::{NOTIFIED, REPORTED};
use object::{Gvk, Object, fields};

/// The snapshot directory within a report directory.
pub const SNAPSHOT: &str = "snapshot";
/// The maximum size of a snapshot: about 200,000 add-ons on clusters. The operator rewrites it with every
/// report.
const MAX_BYTES: usize = 64 << 20;
/// The maximum size of a file. A plan does not read larger files.
const MAX_FILE_BYTES: usize = 8 << 20;
/// The maximum JSON size of the decoded objects. A file may repeat a large object a million times.
const MAX_READ_BYTES: usize = 1 << 30;
/// The kind of a file.
pub const FLEET_SNAPSHOT: &str = "FleetSnapshot";

/// A group of objects in a file: the same kind, the same name if they have a namespace, and the same fields.
type SameFields = (String, String, String);

/// Returns up to 16 files by path; `None` if they would be too large. The values of Secrets and volatile fields
/// are omitted. Objects with the same fields are encoded as one object and the differences of the others, each
/// on one line. All objects of a cluster are in the same file, so that a change does not touch other files.
pub fn snapshot(
    objects: impl IntoIterator<Item = Object>,
    now: Timestamp,
) -> Option<BTreeMap<String, String>> {
    let mut files: BTreeMap<String, BTreeMap<SameFields, AlikeWriter>> = BTreeMap::new();
    let mut bytes = 0;
    for object in objects {
        let path = path(&object);
        let name = if object.namespace().is_empty() { "" } else { object.name() };
        let (kind, name) = (object.gvk().to_string(), name.to_owned());
        let value = stripped(object, now);
        let alike = files.entry(path).or_default().entry((kind, name, fields_of(&value))).or_default();
        let before = alike.len();
        alike.add(&value).ok()?;
        bytes += alike.len() - before;
        if bytes > MAX_BYTES {
            return None;
        }
    }
    let text = |alike: BTreeMap<SameFields, AlikeWriter>| {
        let alike: Vec<String> = alike.into_values().map(AlikeWriter::finish).collect();
        let api_version = Gvk::of::<ConfigRepo>().api_version();
        format!(
            "{{\"apiVersion\":\"{api_version}\",\"kind\":\"{FLEET_SNAPSHOT}\",\"alike\":[\n{}\n]}}\n",
            alike.join(",\n")
        )
    };
    let files: BTreeMap<_, _> = files.into_iter().map(|(path, alike)| (path, text(alike))).collect();
    files.values().all(|text| text.len() <= MAX_FILE_BYTES).then_some(files)
}

/// Reads the files of a snapshot.
#[derive(Debug)]
pub struct SnapshotReader {
    /// The number of bytes of objects that may still be read.
    left: usize,
}

impl Default for SnapshotReader {
    fn default() -> Self {
        Self { left: MAX_READ_BYTES }
    }
}

impl SnapshotReader {
    /// Reads all objects in a file.
    ///
    /// # Errors
    /// Fails if the text is not a snapshot file, or if the objects of all files exceed 1 GiB.
    pub fn read(&mut self, file: &str) -> serde_json::Result<Vec<Object>> {
        self.read_taken(file, |_| None, |_| true)
    }

    /// Reads the objects in a file whose part `takes` accepts. `part` must select the same fields from each
    /// object, regardless of their values; `None` skips all objects. Skipped objects are never built.
    ///
    /// # Errors
    /// See [`SnapshotReader::read`].
    pub fn read_taken(
        &mut self,
        file: &str,
        part: impl Fn(&Object) -> Option<Object>,
        mut takes: impl FnMut(&Object) -> bool,
    ) -> serde_json::Result<Vec<Object>> {
        let file: FleetSnapshot = serde_json::from_str(file)?;
        let mut objects = Vec::new();
        for alike in file.alike {
            objects.extend(alike.objects(&part, &mut takes, &mut self.left)?);
        }
        Ok(objects)
    }
}

/// A file of a snapshot.
#[derive(Deserialize)]
struct FleetSnapshot {
    alike: Vec<Alike>,
}

/// Returns true if a snapshot contains an object completely, because the object contains no secret values.
pub fn is_shown(object: &Object) -> bool {
    let mut shown = Value::Object(object.0.clone());
    hide(&mut shown, false);
    shown.as_object() == Some(&object.0)
}

/// Returns the file path of an object. The namespace of a cluster has the same name as the cluster.
fn path(object: &Object) -> String {
    let cluster = if object.namespace().is_empty() { object.name() } else { object.namespace() };
    format!("{SNAPSHOT}/{}.json", shard(cluster).get(..1).unwrap_or_default())
}

/// Returns the part of an object that is controlled by a commit or by other writers of its spec and metadata. A
/// plan from a report depends on it for the objects that a ConfigRepo applies.
pub fn decided(object: &Object) -> Value {
    let mut object = object.clone();
    object.0.remove("status");
    object.metadata_mut().remove("resourceVersion");
    strip_owners(&mut object);
    object.into_value()
}

/// Keeps field owners only for objects that a ConfigRepo applies, because an apply removes owned fields that
/// left the commit. Omits times and the owners of the status, because no apply reads them.
fn strip_owners(object: &mut Object) {
    if !object.annotations().contains_key(CONFIG_REPO_ANNOTATION) {
        object.metadata_mut().remove("managedFields");
        return;
    }
    let Some(Value::Array(entries)) = object.metadata_mut().get_mut("managedFields") else { return };
    entries.retain(|entry| entry.get("subresource").is_none_or(|name| name == ""));
    for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
        entry.retain(|field, _| !["time", "fieldsType"].contains(&field.as_str()));
    }
    fields::pack(object);
}

/// Returns an object without secret values and volatile fields: counters of the API server, the status of the
/// report and of notifications, the times of repeated failures, and the expiry of valid scores. Scores are renewed
/// every few minutes.
/// A later plan treats a score as valid if it was valid at the time of the report.
fn stripped(mut object: Object, now: Timestamp) -> Value {
    object.metadata_mut().remove("resourceVersion");
    strip_owners(&mut object);
    if object.kind() == "ConfigRepo"
        && let Some(Value::Object(status)) = object.0.get_mut("status")
    {
        status.remove("report");
        status.remove("notifications");
        if let Some(Value::Object(commit_status)) = status.get_mut("commitStatus") {
            commit_status.remove("time");
        }
        if let Some(Value::Array(conditions)) = status.get_mut("conditions") {
            let is_volatile = |type_: &Value| [REPORTED, NOTIFIED].iter().any(|one| type_ == one);
            conditions.retain(|condition| !condition.get("type").is_some_and(is_volatile));
        }
    }
    if object.kind() == "RolloutPolicy"
        && let Some(Value::Object(status)) = object.0.get_mut("status")
        && let Some(Value::Array(refused)) = status.get_mut("refused")
    {
        for record in refused.iter_mut().filter_map(Value::as_object_mut) {
            // The field is required, but changes with each attempt.
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

/// The field with the expiry of a score.
const UNTIL: &str = "validUntil";

fn until(status: &Map<String, Value>) -> Option<Timestamp> {
    status.get(UNTIL)?.as_str()?.parse().ok()
}

/// Hides the values of Secrets, including Secrets inside other objects.
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
    use object::Random;
    use serde_json::json;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn of(value: Value) -> String {
        snapshot([Object::from_value(value).unwrap()], NOW).unwrap().into_values().collect()
    }

    /// Returns an object with a unique value of this many bytes.
    fn config_map(cluster: usize, size: usize) -> Object {
        let metadata = json!({"name": "m", "namespace": format!("cluster-{cluster}")});
        let data = json!({"k": format!("{cluster}{}", "x".repeat(size)), "same": "for all clusters"});
        Object::from_value(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}),
        )
        .unwrap()
    }

    #[test]
    fn a_snapshot_contains_no_secret_values() {
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
        let report = policy("2026-01-01T00:01:00Z");
        assert_eq!(report, policy("2026-01-01T00:02:00Z"));
        assert!(report.contains("\"cluster\":\"c1\"") && report.contains("\"tried\""), "{report}");
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

    fn read(files: &BTreeMap<String, String>) -> Vec<Object> {
        let mut reader = SnapshotReader::default();
        files.values().flat_map(|file| reader.read(file).unwrap()).collect()
    }

    #[test]
    fn a_fleet_that_is_too_large_has_no_snapshot() {
        let of = |clusters: usize| snapshot((0..clusters).map(|number| config_map(number, 10_000)), NOW);
        assert_eq!(read(&of(6_000).unwrap()).len(), 6_000);
        assert!(of(7_000).is_none());
        let of_one = |number: usize| {
            let mut object = config_map(number, 1 << 20);
            object.metadata_mut().insert("namespace".into(), "c".into());
            object
        };
        assert!(snapshot((0..8).map(of_one), NOW).is_none(), "a file of more than 8 MiB");
    }

    #[test]
    fn a_change_of_a_cluster_changes_one_file_of_sixteen() {
        let fleet = |size: usize| {
            let objects = (0..500).map(|number| config_map(number, if number == 7 { size } else { 5 }));
            snapshot(objects, NOW).unwrap()
        };
        let (before, after) = (fleet(5), fleet(6));
        let changed = before.iter().filter(|(path, text)| after[*path] != **text).count();
        assert_eq!((before.len(), after.len(), changed), (16, 16, 1));
        assert_eq!(read(&after).len(), 500);
    }

    /// Returns random JSON with few names and values, so that many are alike.
    fn random_value(random: &mut Random, depth: u64) -> Value {
        let inside = |random: &mut Random| random_value(random, depth - 1);
        match random.below(if depth == 0 { 4 } else { 6 }) {
            0 => Value::Null,
            1 => random.below(3).into(),
            2 => ["", "0", "1", "a"][usize::try_from(random.below(4)).unwrap()].into(),
            3 => random.chance(500).into(),
            4 => (0..random.below(3)).map(|_| inside(random)).collect(),
            _ => (0..random.below(3)).map(|number| (format!("{number}"), inside(random))).collect(),
        }
    }

    #[test]
    fn a_snapshot_is_read_as_it_was_written() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let objects = (0..30).map(|number| {
                let name = format!("m-{}", number % 3);
                let metadata = json!({"name": name, "namespace": format!("cluster-{}", number / 3)});
                let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
                object["spec"] = random_value(&mut random, 3);
                object
            });
            let objects: Vec<Object> = objects.map(|it| Object::from_value(it).unwrap()).collect();
            let files = snapshot(objects.clone(), NOW).unwrap();
            let in_order = |objects: Vec<Object>| -> BTreeMap<_, _> {
                objects.into_iter().map(|object| (object.key(), object)).collect()
            };
            assert_eq!(in_order(read(&files)), in_order(objects.clone()), "seed {seed}");

            // The part must equal the same fields of the full object.
            let part = |object: &Object| {
                let mut part = json!({"metadata": object.at(&["metadata"])});
                part["spec"] = object.at(&["spec", "1"]).cloned().unwrap_or_default();
                Object::from_value(part).ok()
            };
            let mut parts = Vec::new();
            let mut reader = SnapshotReader::default();
            for file in files.values() {
                let takes = |part: &Object| {
                    parts.push(part.clone());
                    part.name() == "m-1"
                };
                let taken = reader.read_taken(file, part, takes).unwrap();
                assert!(taken.iter().all(|object| object.name() == "m-1"), "seed {seed}");
            }
            let wanted: BTreeMap<_, _> =
                objects.iter().map(|object| (object.key(), part(object).unwrap())).collect();
            let parts: BTreeMap<_, _> = parts.into_iter().map(|part| (part.key(), part)).collect();
            assert_eq!(parts, wanted, "seed {seed}");
        }
    }

    #[test]
    fn common_fields_of_clusters_are_written_once_per_file() {
        let work = |cluster: usize| {
            let mut work = config_map(cluster, 5);
            work.0.insert("spec".into(), json!({"of": "every cluster ".repeat(100)}));
            work
        };
        let files = snapshot((0..1_600).map(work), NOW).unwrap();
        let bytes: usize = files.values().map(String::len).sum();
        assert!(bytes < 16 * 2_000 + 1_600 * 60, "{bytes}");
    }

    #[test]
    fn an_invalid_snapshot_is_refused_and_a_huge_one_is_not_expanded() {
        let refused = |others: &str, bytes: usize| {
            let object =
                json!({"kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"k": "x".repeat(bytes)}});
            let file = format!(r#"{{"alike": [{{"object": {object}, "others": [{others}]}}]}}"#);
            SnapshotReader::default().read(&file).unwrap_err().to_string()
        };
        assert_eq!(refused("[]", 1), "difference 1 has no place in 3 values");
        assert_eq!(refused(r#"[["n", [2]]], [["n", [3]]]"#, 1), "difference 2 has no place in 3 values");
        assert!(refused(r#"[["n", [-1]]]"#, 1).contains("invalid value"));
        let many = vec![r#"[["n", [2]]]"#; 1_100].join(",");
        assert_eq!(refused(&many, 1 << 20), "the objects are too large in total");
        let list = r#"{"apiVersion": "v1", "kind": "List", "items": []}"#;
        assert!(
            SnapshotReader::default().read(list).unwrap_err().to_string().contains("missing field `alike`")
        );
    }
}
