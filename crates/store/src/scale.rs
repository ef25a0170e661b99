//! The scale subresource: the replicas of anything, in one shape.

use serde_json::{Value, json};

use object::Object;

use super::api_resource::Version;

fn number(object: &Object, path: &[String]) -> Option<i64> {
    let path: Vec<_> = path.iter().map(String::as_str).collect();
    object.at(&path).and_then(Value::as_i64)
}

/// The `autoscaling/v1` Scale of an object; `None` where its version has none.
pub(super) fn read(version: &Version, object: &Object) -> Option<Object> {
    let scale = version.scale.as_ref()?;
    let selector = scale.selector.as_ref().map(|path| {
        let path: Vec<_> = path.iter().map(String::as_str).collect();
        selector_text(object.at(&path))
    });
    let mut metadata = serde_json::Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.at(&["metadata", field]) {
            metadata.insert(field.into(), value.clone());
        }
    }
    let mut status = json!({ "replicas": number(object, &scale.status_replicas).unwrap_or(0) });
    let selector = selector.filter(|text| !text.is_empty());
    if let (Some(selector), Some(status)) = (selector, status.as_object_mut()) {
        status.insert("selector".into(), selector.into());
    }
    let whole = json!({
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": metadata,
        "spec": { "replicas": number(object, &scale.spec_replicas).unwrap_or(0) },
        "status": status,
    });
    Object::from_value(whole).ok()
}

/// The object with the replicas that a Scale asks for; `None` where its version has none.
pub(super) fn write(version: &Version, object: &Object, scaled: &Object) -> Option<Object> {
    let path = &version.scale.as_ref()?.spec_replicas;
    let replicas = scaled.at(&["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(0);
    let mut object = object.clone();
    let (last, parents) = path.split_last()?;
    let mut at = &mut object.0;
    for parent in parents {
        at = at.entry(parent).or_insert_with(|| json!({})).as_object_mut()?;
    }
    at.insert(last.clone(), replicas.into());
    match scaled.at(&["metadata", "resourceVersion"]) {
        Some(version) => object.metadata_mut().insert("resourceVersion".into(), version.clone()),
        None => object.metadata_mut().remove("resourceVersion"),
    };
    Some(object)
}

/// Labels and expressions as `a=b,c in (d)`; a text stays as it is.
fn selector_text(selector: Option<&Value>) -> String {
    match selector {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Object(selector)) => {
            let labels = selector.get("matchLabels").and_then(Value::as_object);
            let pairs =
                labels.into_iter().flatten().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()));
            pairs.collect::<Vec<_>>().join(",")
        }
        _ => String::new(),
    }
}
