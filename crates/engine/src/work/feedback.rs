//! Values that are read back from the status of applied objects.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::Value;

use api::work::v1::{FeedbackRule, FeedbackType, FeedbackValue, FieldValue, FieldValueType, JsonPath};
use object::Object;
use object::jsonpath;
use object::steps::StepsLeft;

/// The maximum number of characters in a string, and of bytes of JSON. A spoke must not control the size of
/// objects on the hub.
const MAX_STRING: usize = 1024;

/// Returns the values that the rules select, and the errors for unreadable values. Evaluation is limited to
/// `steps`. The first rule with a name wins.
pub(crate) fn feedback(
    object: &Object,
    rules: &[FeedbackRule],
    steps: usize,
) -> (Vec<FeedbackValue>, Vec<String>) {
    let mut steps = StepsLeft(steps);
    let whole = Value::Object(object.0.clone());
    let (mut values, mut errors) = (BTreeMap::new(), Vec::new());
    let mut order = Vec::new();
    for (name, version, path) in
        rules.iter().flat_map(|rule| paths(object, rule, &mut errors)).collect::<Vec<_>>()
    {
        if values.contains_key(&name) {
            continue;
        }
        if !version.is_empty() && version != object.gvk().version {
            errors.push(format!(
                "version set in the path {name} is {version} while the object has {}",
                object.gvk().version
            ));
            continue;
        }
        match read(&whole, &name, &path, &mut steps) {
            Ok(Some((value, cut))) => {
                errors.extend(cut);
                order.push(name.clone());
                values.insert(name, value);
            }
            Ok(None) => {}
            Err(error) => errors.push(error),
        }
    }
    let named =
        order.into_iter().filter_map(|name| values.remove(&name).map(|field_value| (name, field_value)));
    (
        named
            .map(|(name, field_value)| FeedbackValue { name, field_value, ..FeedbackValue::default() })
            .collect(),
        errors,
    )
}

/// Returns the name, version and path of each value that a rule selects.
fn paths(object: &Object, rule: &FeedbackRule, errors: &mut Vec<String>) -> Vec<(String, String, String)> {
    let FeedbackRule { r#type, json_paths, unknown: _ } = rule;
    match r#type {
        FeedbackType::WellKnownStatus => {
            let known = well_known(object);
            if known.is_empty() {
                errors.push(format!(
                    "cannot find the well known statuses for resource with gvk {}",
                    object.gvk()
                ));
            }
            known.iter().map(|(name, path)| ((*name).to_owned(), String::new(), (*path).to_owned())).collect()
        }
        FeedbackType::JsonPaths => {
            let asked = json_paths.iter().map(|JsonPath { name, version, path, unknown: _ }| {
                (name.clone(), version.clone(), path.clone())
            });
            asked.collect()
        }
        FeedbackType::Other(other) => {
            errors.push(format!("feedback of type {other} is not known"));
            Vec::new()
        }
    }
}

fn well_known(object: &Object) -> &'static [(&'static str, &'static str)] {
    match (object.api_version(), object.kind()) {
        ("apps/v1", "Deployment") => &[
            ("ReadyReplicas", ".status.readyReplicas"),
            ("Replicas", ".status.replicas"),
            ("AvailableReplicas", ".status.availableReplicas"),
        ],
        ("apps/v1", "DaemonSet") => &[
            ("NumberReady", ".status.numberReady"),
            ("DesiredNumberScheduled", ".status.desiredNumberScheduled"),
            ("NumberAvailable", ".status.numberAvailable"),
        ],
        ("batch/v1", "Job") => &[
            ("JobComplete", r#".status.conditions[?(@.type=="Complete")].status"#),
            ("JobSucceeded", ".status.succeeded"),
        ],
        ("v1", "Pod") => {
            &[("PodReady", r#".status.conditions[?(@.type=="Ready")].status"#), ("PodPhase", ".status.phase")]
        }
        _ => &[],
    }
}

/// Returns the value at a path, with an error if it is truncated; `None` if there is no value.
fn read(
    whole: &Value,
    name: &str,
    path: &str,
    steps: &mut StepsLeft,
) -> Result<Option<(FieldValue, Option<String>)>, String> {
    let found = jsonpath::find(whole, path, steps).map_err(|e| e.to_string())?;
    let mut cut = None;
    let value = match found.first() {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => {
            let length = text.chars().count();
            cut = (length > MAX_STRING).then(|| {
                format!("the value for {name} has {length} characters, the first {MAX_STRING} are reported")
            });
            let string = Some(text.chars().take(MAX_STRING).collect());
            FieldValue { r#type: FieldValueType::String, string, ..FieldValue::default() }
        }
        Some(Value::Bool(boolean)) => {
            FieldValue { r#type: FieldValueType::Boolean, boolean: Some(*boolean), ..FieldValue::default() }
        }
        Some(Value::Number(number)) => match number.as_i64() {
            Some(integer) => FieldValue {
                r#type: FieldValueType::Integer,
                integer: Some(integer),
                ..FieldValue::default()
            },
            None => raw(name, &found)?,
        },
        Some(Value::Array(_) | Value::Object(_)) => raw(name, &found)?,
    };
    Ok(Some((value, cut)))
}

/// Returns a non-scalar value as JSON. Several matches become a list.
fn raw(name: &str, found: &[&Value]) -> Result<FieldValue, String> {
    let mut text = Beginning(Vec::new());
    let written = match found {
        [only] => serde_json::to_writer(&mut text, only),
        several => serde_json::to_writer(&mut text, several),
    };
    written.map_err(|_| format!("the value for {name} has more than {MAX_STRING} bytes of JSON"))?;
    let json_raw = String::from_utf8(text.0).ok();
    Ok(FieldValue { r#type: FieldValueType::JsonRaw, json_raw, ..FieldValue::default() })
}

/// A buffer for at most [`MAX_STRING`] bytes. Writing stops there, because matches can contain each other and
/// grow to many times the size of the object.
struct Beginning(Vec<u8>);

impl Write for Beginning {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_STRING {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addon::works::CAUSES;
    use object::steps::MAX_STEPS;
    use serde_json::json;

    #[test]
    fn a_name_is_reported_once() {
        let object =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": {"replicas": 2, "s": "y"}});
        let rules = json!([
            {"type": "WellKnownStatus"},
            {"type": "JSONPaths", "jsonPaths": [
                {"name": "Replicas", "path": ".status.s"},
                {"name": "s", "path": ".status.s"},
                {"name": "bad", "path": ".status.["},
                {"name": "v", "path": ".status.s", "version": "v2"},
            ]},
        ]);
        let rules: Vec<FeedbackRule> = serde_json::from_value(rules).unwrap();
        let (values, errors) = feedback(&Object::from_value(object).unwrap(), &rules, MAX_STEPS);
        let values: Vec<_> = values
            .iter()
            .map(|v| (v.name.as_str(), v.field_value.integer, v.field_value.string.as_deref()))
            .collect();
        assert_eq!(values, [("Replicas", Some(2), None), ("s", None, Some("y"))]);
        assert_eq!(errors.len(), 2, "{errors:?}");
    }

    #[test]
    fn well_known_values_match_open_cluster_management() {
        let conditions =
            json!([{"type": "Complete", "status": "True"}, {"type": "Ready", "status": "False"}]);
        let status = json!({"readyReplicas": 1, "replicas": 2, "availableReplicas": 3, "numberReady": 4,
            "desiredNumberScheduled": 5, "numberAvailable": 6, "succeeded": 7, "phase": "Running",
            "conditions": conditions});
        let check = |api_version: &str, kind: &str, want: &[&str]| {
            let object = json!({"apiVersion": api_version, "kind": kind, "status": status});
            let rules: Vec<FeedbackRule> =
                serde_json::from_value(json!([{"type": "WellKnownStatus"}])).unwrap();
            let (values, errors) = feedback(&Object::from_value(object).unwrap(), &rules, MAX_STEPS);
            let shown = |value: &FeedbackValue| {
                let FieldValue { integer, string, .. } = &value.field_value;
                let text = integer.map(|integer| integer.to_string()).or_else(|| string.clone());
                format!("{}={}", value.name, text.unwrap())
            };
            assert_eq!(values.iter().map(shown).collect::<Vec<_>>(), want);
            let unknown = "cannot find the well known statuses for resource with gvk StatefulSet.apps";
            assert_eq!(errors, if want.is_empty() { vec![unknown] } else { Vec::new() });
        };
        check("apps/v1", "Deployment", &["ReadyReplicas=1", "Replicas=2", "AvailableReplicas=3"]);
        check("apps/v1", "DaemonSet", &["NumberReady=4", "DesiredNumberScheduled=5", "NumberAvailable=6"]);
        check("batch/v1", "Job", &["JobComplete=True", "JobSucceeded=7"]);
        check("v1", "Pod", &["PodReady=False", "PodPhase=Running"]);
        check("apps/v1", "StatefulSet", &[]);
    }

    #[test]
    fn a_value_has_the_type_of_its_field_and_an_absent_one_is_left_out() {
        let status = json!({"b": true, "i": 7, "s": "t", "map": {}, "none": null});
        let path = |name: &str| json!({"name": name, "path": format!(".status.{name}"), "version": "v1"});
        let paths = ["b", "i", "s", "map", "none", "absent"].map(path);
        let other = json!({"name": "other", "path": ".status.s", "version": "v2"});
        let rules = json!([{"type": "Guess"}, {"type": "JSONPaths", "jsonPaths": paths},
            {"type": "JSONPaths", "jsonPaths": [other]}]);
        let rules: Vec<FeedbackRule> = serde_json::from_value(rules).unwrap();
        let object = Object::from_value(json!({"apiVersion": "x/v1", "status": status})).unwrap();
        let (values, errors) = feedback(&object, &rules, MAX_STEPS);
        let value = |name: &str, value: Value| json!({"name": name, "fieldValue": value});
        let expected = [
            value("b", json!({"type": "Boolean", "boolean": true})),
            value("i", json!({"type": "Integer", "integer": 7})),
            value("s", json!({"type": "String", "string": "t"})),
            value("map", json!({"type": "JsonRaw", "jsonRaw": "{}"})),
        ];
        assert_eq!(json!(values), json!(expected));
        assert_eq!(
            errors,
            [
                "feedback of type Guess is not known",
                "version set in the path other is v2 while the object has v1"
            ]
        );
    }

    #[test]
    fn a_deployment_reports_why_it_fails_and_one_that_does_not_has_neither_value_nor_error() {
        let paths = CAUSES.map(|(name, path)| json!({"name": name, "path": path}));
        let rules: Vec<FeedbackRule> =
            serde_json::from_value(json!([{"type": "JSONPaths", "jsonPaths": paths}])).unwrap();
        let check = |status: Value, want: &[(&str, &str)]| {
            let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": status});
            let (values, errors) = feedback(&Object::from_value(object).unwrap(), &rules, MAX_STEPS);
            let found: Vec<_> = values
                .iter()
                .map(|v| (v.name.as_str(), v.field_value.string.as_deref().unwrap_or_default()))
                .collect();
            assert_eq!(found, want);
            assert_eq!(errors, [""; 0]);
        };
        let condition = |type_: &str, status: &str, reason: &str, message: &str| json!({"type": type_, "status": status, "reason": reason, "message": message});
        let available = condition("Available", "True", "MinimumReplicasAvailable", "up");
        let progress = condition("Progressing", "True", "NewReplicaSetAvailable", "has progressed");
        let late = condition("Progressing", "False", "ProgressDeadlineExceeded", "has timed out");
        let failure = condition("ReplicaFailure", "True", "FailedCreate", "exceeded quota");
        check(Value::Null, &[]);
        check(json!({}), &[]);
        check(json!({"conditions": []}), &[]);
        check(json!({"conditions": [{"type": "Available", "status": "True"}]}), &[]);
        check(json!({"conditions": [available, progress]}), &[]);
        check(json!({"conditions": [available, late]}), &[("ProgressDeadlineExceeded", "has timed out")]);
        let both = [("ReplicaFailure", "exceeded quota"), ("ProgressDeadlineExceeded", "has timed out")];
        check(json!({"conditions": [available, late, failure]}), &both);
    }

    #[test]
    fn a_truncated_string_is_an_error_with_its_beginning() {
        let object = json!({"status": {"fits": "é".repeat(1024), "long": "é".repeat(1025)}});
        let paths =
            json!([{"name": "fits", "path": ".status.fits"}, {"name": "long", "path": ".status.long"}]);
        let rules: Vec<FeedbackRule> =
            serde_json::from_value(json!([{"type": "JSONPaths", "jsonPaths": paths}])).unwrap();
        let (values, errors) = feedback(&Object::from_value(object).unwrap(), &rules, MAX_STEPS);
        assert_eq!(values.len(), 2);
        for value in &values {
            assert_eq!(value.field_value.string.as_deref(), Some("é".repeat(1024).as_str()));
        }
        assert_eq!(errors, ["the value for long has 1025 characters, the first 1024 are reported"]);
    }

    #[test]
    fn lists_and_maps_are_reported_as_json_up_to_a_limit() {
        let object = json!({"status": {"n": 1.5, "map": {"a": [1]}, "items": [{"v": {"x": 1}}, {"v": 2}],
            "fits": ["x".repeat(1020)], "long": ["x".repeat(1021)]}});
        let paths = [
            ("n", ".status.n"),
            ("map", ".status.map"),
            ("items", ".status.items[*].v"),
            ("fits", ".status.fits"),
            ("long", ".status.long"),
        ];
        let paths: Vec<_> = paths.iter().map(|(name, path)| json!({"name": name, "path": path})).collect();
        let rules: Vec<FeedbackRule> =
            serde_json::from_value(json!([{"type": "JSONPaths", "jsonPaths": paths}])).unwrap();
        let (values, errors) = feedback(&Object::from_value(object).unwrap(), &rules, MAX_STEPS);
        let raw: Vec<_> = values.iter().map(|v| v.field_value.json_raw.as_deref().unwrap()).collect();
        assert_eq!(raw[..3], ["1.5", r#"{"a":[1]}"#, r#"[{"x":1},2]"#]);
        assert_eq!((raw.len(), raw[3].len()), (4, 1024));
        assert_eq!(errors, ["the value for long has more than 1024 bytes of JSON"]);
    }

    #[test]
    fn paths_share_the_steps_of_the_manifest_and_no_match_is_copied_beyond_the_limit() {
        let status = json!({"items": vec![json!({"x": "y".repeat(1 << 20)}); 3], "n": 1});
        let chain = (0..100).fold(status, |below, _| json!({"status": below}));
        let object = Object::from_value(chain).unwrap();
        let paths = [("wide", "..*"), ("deep", "..*..*..*..*"), ("late", ".status")];
        let paths: Vec<_> = paths.iter().map(|(name, path)| json!({"name": name, "path": path})).collect();
        let rules: Vec<FeedbackRule> =
            serde_json::from_value(json!([{"type": "JSONPaths", "jsonPaths": paths}])).unwrap();
        let (values, errors) = feedback(&object, &rules, MAX_STEPS);
        assert_eq!(values.len(), 0);
        assert_eq!(errors[0], "the value for wide has more than 1024 bytes of JSON");
        assert!(errors[1].starts_with("the path ..*..*..*..*: it takes too many steps"), "{errors:?}");
    }
}
