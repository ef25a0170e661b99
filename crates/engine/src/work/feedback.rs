//! Values read back from the status of applied objects.

use std::collections::BTreeMap;

use serde_json::Value;

use api::work::v1::{FeedbackRule, FeedbackType, FeedbackValue, FieldValue, FieldValueType};
use object::Object;
use object::jsonpath;

/// Longest string that is reported, so that a spoke cannot choose the size of objects on the hub.
const MAX_STRING: usize = 1024;

/// Reads the values that the rules ask for, and the errors of those that cannot be read. The first rule of a name wins.
pub(crate) fn feedback(object: &Object, rules: &[FeedbackRule]) -> (Vec<FeedbackValue>, Vec<String>) {
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
        match read(&whole, &name, &path) {
            Ok(Some(value)) => {
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

/// Name, version and path of each value that a rule asks for.
fn paths(object: &Object, rule: &FeedbackRule, errors: &mut Vec<String>) -> Vec<(String, String, String)> {
    match &rule.r#type {
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
            rule.json_paths.iter().map(|p| (p.name.clone(), p.version.clone(), p.path.clone())).collect()
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

fn read(whole: &Value, name: &str, path: &str) -> Result<Option<FieldValue>, String> {
    let found = jsonpath::find(whole, path).map_err(|e| e.to_string())?;
    let unsupported = |type_: &str| Err(format!("the type {type_} of the value for {name} is not found"));
    match found.first() {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => {
            let string = Some(text.chars().take(MAX_STRING).collect());
            Ok(Some(FieldValue { r#type: FieldValueType::String, string, ..FieldValue::default() }))
        }
        Some(Value::Bool(boolean)) => Ok(Some(FieldValue {
            r#type: FieldValueType::Boolean,
            boolean: Some(*boolean),
            ..FieldValue::default()
        })),
        Some(Value::Number(number)) => match number.as_i64() {
            Some(integer) => Ok(Some(FieldValue {
                r#type: FieldValueType::Integer,
                integer: Some(integer),
                ..FieldValue::default()
            })),
            None => unsupported("float64"),
        },
        Some(Value::Array(_)) => unsupported("[]interface {}"),
        Some(Value::Object(_)) => unsupported("map[string]interface {}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_name_is_reported_once() {
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": {"replicas": 2, "x": 1.5, "s": "y"}});
        let rules = json!([
            {"type": "WellKnownStatus"},
            {"type": "JSONPaths", "jsonPaths": [
                {"name": "Replicas", "path": ".status.s"},
                {"name": "s", "path": ".status.s"},
                {"name": "x", "path": ".status.x"},
                {"name": "v", "path": ".status.s", "version": "v2"},
            ]},
        ]);
        let rules: Vec<FeedbackRule> = serde_json::from_value(rules).unwrap();
        let (values, errors) = feedback(&Object::from_value(object).unwrap(), &rules);
        let values: Vec<_> = values
            .iter()
            .map(|v| (v.name.as_str(), v.field_value.integer, v.field_value.string.as_deref()))
            .collect();
        assert_eq!(values, [("Replicas", Some(2), None), ("s", None, Some("y"))]);
        assert_eq!(errors.len(), 2, "{errors:?}");
    }
}
