//! Tracks the owners of fields in `metadata.managedFields` of stored objects, using [`fields`](object::fields).

use serde_json::{Map, Value};

use object::Object;
use object::builtin_lists::{BUILTIN, Position};
use object::fields::{Applying, Manager, Operation, Owners};

use super::request_scope::RequestScope;
use super::write_request::WriteRequest;
use super::{ApiError, metadata, prune};

/// The result of an apply.
pub(super) struct Applied {
    pub(super) object: Object,
    pub(super) managed_fields: Vec<Value>,
}

/// Returns how fields are owned in a version of a resource.
pub(super) fn position(scope: &RequestScope) -> Position<'_> {
    let resource = scope.resource();
    if resource.is_custom() {
        Position::schema(&scope.version().openapi)
    } else {
        BUILTIN.root(&scope.api_version(), &resource.kind)
    }
}

fn manager(request: &WriteRequest<'_>, operation: Operation) -> Manager {
    let subresource = request.target.subresource.clone();
    Manager {
        operation,
        name: request.options.manager.clone(),
        api_version: request.scope.api_version(),
        subresource,
    }
}

fn time(request: &WriteRequest<'_>) -> String {
    metadata::time(request.now).as_str().unwrap_or_default().to_owned()
}

/// Returns a copy of an object without its managed fields, and their owners.
fn split(object: &Object) -> (Value, Owners) {
    let without_owners = |metadata: &Map<String, Value>| {
        let others = metadata.iter().filter(|(field, _)| *field != "managedFields");
        Value::Object(others.map(|(field, value)| (field.clone(), value.clone())).collect())
    };
    let fields = object.0.iter().map(|(field, value)| match value {
        Value::Object(metadata) if field == "metadata" => (field.clone(), without_owners(metadata)),
        value => (field.clone(), value.clone()),
    });
    (Value::Object(fields.collect()), Owners::read(object.at(&["metadata", "managedFields"])))
}

/// Returns the value of a new object before the first write: the fields that Go writes even if they are empty.
fn zero(request: &WriteRequest<'_>) -> Value {
    let kind = request.scope.resource().builtin;
    let zero = kind.into_iter().flat_map(|kind| kind.zero());
    Value::Object(zero.map(|(field, value)| (field.to_owned(), value)).collect())
}

/// Applies a configuration (`config` as parsed, `named` as sent) to the current object with server-side apply.
/// Returns an error if others own a field that it would change.
pub(super) fn apply(
    request: &WriteRequest<'_>,
    old: Option<&Object>,
    config: Object,
    named: Object,
) -> Result<Applied, ApiError> {
    let (live, owners) = old.map_or_else(|| (Value::Object(Map::new()), Owners::default()), split);
    let config = Value::Object(covered(request, config).0);
    let named = Value::Object(covered(request, named).0);
    let manager = manager(request, Operation::Apply);
    let zero = zero(request);
    let force = request.options.force;
    let applying = Applying { zero: &zero, live: &live, config: &config, named: &named, force };
    let applied = owners.applied(&manager, applying, position(&request.scope), &time(request));
    let (value, owners) = applied.map_err(|conflicts| {
        let fields = conflicts
            .iter()
            .flat_map(|c| c.fields.paths().into_iter().map(|path| (c.manager.to_string(), path)));
        ApiError::apply_conflict(&fields.collect::<Vec<_>>())
    })?;
    let mut object = Object::from_value(value).map_err(|e| ApiError::internal(e.to_string()))?;
    prune::drop_emptied(&request.scope, &mut object);
    Ok(Applied { object, managed_fields: owners.to_values() })
}

/// Returns the part of a configuration that the subresource covers. The rest is ignored, like upstream's reset
/// fields.
fn covered(request: &WriteRequest<'_>, mut config: Object) -> Object {
    if request.target.subresource.is_empty() {
        if request.scope.version().status {
            config.0.remove("status");
        }
    } else {
        config.0.retain(|field, _| matches!(field.as_str(), "apiVersion" | "kind" | "metadata" | "status"));
        config
            .metadata_mut()
            .retain(|field, _| matches!(field.as_str(), "name" | "namespace" | "resourceVersion" | "uid"));
    }
    config
}

/// Returns the entries after an update that changed `old` to `new`.
///
/// Entries that the writer removed from the object are kept, unless the writer emptied the list.
pub(super) fn update(request: &WriteRequest<'_>, old: Option<&Object>, new: &Object) -> Vec<Value> {
    let nothing = || (zero(request), Owners::default());
    let (mut before, owners) = old.map_or_else(nothing, split);
    let (mut after, sent) = split(new);
    if request.target.subresource.is_empty() && request.scope.version().status {
        // No manager owns the fields that the server writes to a new object.
        let unowned = request.scope.resource().builtin.map_or(&[][..], |kind| kind.unowned_fields);
        for fields in [&mut before, &mut after].into_iter().filter_map(Value::as_object_mut) {
            fields.remove("status");
            for path in unowned {
                remove(fields, path);
            }
        }
    }
    let given = new.at(&["metadata", "managedFields"]).and_then(Value::as_array);
    let is_reset =
        given.is_some_and(|entries| entries.iter().all(|entry| *entry == Value::Object(Map::new())));
    let owners = if is_reset || !sent.is_empty() { sent } else { owners };
    // Owners are recorded either from the creation or from the first apply.
    if old.is_some() && owners.is_empty() {
        return Vec::new();
    }
    if request.options.manager.is_empty() {
        return owners.to_values();
    }
    owners
        .updated(
            &manager(request, Operation::Update),
            (&before, &after),
            position(&request.scope),
            &time(request),
        )
        .to_values()
}

/// Writes the entries to the managed fields of an object.
pub(super) fn write(object: &mut Object, fields: Vec<Value>) {
    if fields.is_empty() {
        object.metadata_mut().remove("managedFields");
    } else {
        object.metadata_mut().insert("managedFields".into(), fields.into());
    }
}

/// Removes the field at a path, such as `spec.clusterIP`.
fn remove(fields: &mut Map<String, Value>, path: &str) {
    match path.split_once('.') {
        None => {
            fields.remove(path);
        }
        Some((first, rest)) => {
            if let Some(below) = fields.get_mut(first).and_then(Value::as_object_mut) {
                remove(below, rest);
            }
        }
    }
}
