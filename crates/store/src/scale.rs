//! The scale subresource: the replicas of any workload, as one type.

use serde_json::{Value, json};

use object::Object;

use super::write_request::WriteRequest;
use super::{ApiError, FieldError, Scale, Version};

/// The maximum number of replicas, because the field is an int32.
const REPLICAS: i64 = i32::MAX as i64;

fn number(object: &Object, path: &[String]) -> Option<i64> {
    let path: Vec<_> = path.iter().map(String::as_str).collect();
    object.at(&path).and_then(Value::as_i64)
}

/// Reports the errors of a custom object in the fields that its Scale shows.
pub(super) fn check(scale: &Scale, object: &Object, errors: &mut Vec<FieldError>) {
    let whole = Value::Object(object.0.clone());
    for path in [&scale.spec_replicas, &scale.status_replicas] {
        let (field, value) = (format!(".{}", path.join(".")), nested(&whole, path));
        let detail = match value.map(|value| value.map(Value::as_i64)) {
            Ok(None | Some(Some(0..=REPLICAS))) => continue,
            Ok(Some(Some(..0))) => "should be a non-negative integer".to_owned(),
            Ok(Some(Some(_))) => format!("should be less than or equal to {REPLICAS}"),
            Ok(Some(None)) => "accessor error: expected int64".to_owned(),
            Err(found) => format!("accessor error: {found} is not a map"),
        };
        errors.push(FieldError::invalid(field, &Value::Null, detail));
    }
    if let Some(path) = &scale.selector {
        let fits = nested(&whole, path).is_ok_and(|value| value.is_none_or(Value::is_string));
        if !fits {
            let detail = "accessor error: expected string";
            errors.push(FieldError::invalid(format!(".{}", path.join(".")), &Value::Null, detail));
        }
    }
}

/// Returns the value at a path, if any. The error is a value on the path that is not a map.
fn nested<'v>(whole: &'v Value, path: &[String]) -> Result<Option<&'v Value>, &'v Value> {
    let mut at = whole;
    for name in path {
        at = match at {
            Value::Object(fields) => match fields.get(name) {
                Some(value) => value,
                None => return Ok(None),
            },
            Value::Null => return Ok(None),
            other => return Err(other),
        };
    }
    Ok((!at.is_null()).then_some(at))
}

/// Returns the `autoscaling/v1` Scale of an object.
///
/// # Errors
/// Returns 404 if the version has no scale subresource, 500 if a custom object does not set its replicas.
pub(super) fn read(version: &Version, object: &Object) -> Result<Object, ApiError> {
    let scale = version.scale.as_ref().ok_or_else(ApiError::no_such_path)?;
    let wanted = number(object, &scale.spec_replicas);
    if wanted.is_none() && !scale.is_builtin {
        let path = format!(".{}", scale.spec_replicas.join("."));
        return Err(ApiError::internal(format!("the spec replicas field {path:?} does not exist")));
    }
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
        "spec": { "replicas": wanted.unwrap_or(0) },
        "status": status,
    });
    Object::from_value(whole).map_err(ApiError::internal)
}

/// Returns the object with the replicas from a Scale.
///
/// # Errors
/// Returns 404 if the version has no scale subresource, 400 or 422 if the replicas are not an int32.
pub(super) fn write(
    request: &WriteRequest<'_>,
    object: &Object,
    scaled: &Object,
) -> Result<Object, ApiError> {
    let scale = request.scope.version().scale.as_ref().ok_or_else(ApiError::no_such_path)?;
    let replicas = match scaled.at(&["spec", "replicas"]) {
        None | Some(Value::Null) => 0,
        Some(given) => given.as_i64().and_then(|number| i32::try_from(number).ok()).ok_or_else(|| {
            let detail = format!(
                "json: cannot unmarshal {given} into Go struct field ScaleSpec.spec.replicas of type int32"
            );
            request.undecodable(scaled, &detail)
        })?,
    };
    let mut object = object.clone();
    let (last, parents) = scale.spec_replicas.split_last().ok_or_else(ApiError::no_such_path)?;
    let mut at = &mut object.0;
    for parent in parents {
        let below = at.entry(parent).or_insert_with(|| json!({}));
        at = below.as_object_mut().ok_or_else(ApiError::no_such_path)?;
    }
    at.insert(last.clone(), replicas.into());
    match scaled.at(&["metadata", "resourceVersion"]) {
        Some(version) => object.metadata_mut().insert("resourceVersion".into(), version.clone()),
        None => object.metadata_mut().remove("resourceVersion"),
    };
    Ok(object)
}

/// Formats a selector as `a=b,c in (d)`; text is returned unchanged.
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
