//! Tables, which `kubectl get` prints.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::request::ApiRequest;
use super::respond;
use object::steps::{MAX_STEPS, StepsLeft};
use object::{Object, jsonpath};
use store::{ApiError, ApiResource, Column, PrinterColumn, Version};

/// The part of each object that its table row includes in addition to the cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Include {
    None,
    Metadata,
    Object,
}

impl Include {
    /// Parses `includeObject`.
    pub(super) fn read(request: &ApiRequest) -> Result<Self, ApiError> {
        match request.query.get("includeObject").unwrap_or_default() {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => Err(ApiError::bad_request(format!("unrecognized includeObject value: {other:?}"))),
        }
    }
}

/// Returns objects as a table. Built-in kinds have their own columns; other kinds have the columns of their
/// definition.
pub(super) fn of(
    seen: &TableContext<'_>,
    objects: &[&Arc<Object>],
    include: Include,
    metadata: Value,
) -> Value {
    let rows: Vec<Value> = objects.iter().map(|object| row(seen, object, include)).collect();
    let definitions: Vec<Value> = match seen.resource.printer_columns() {
        Some(columns) => columns.iter().map(builtin_definition).collect(),
        None => definitions(seen.version),
    };
    json!({ "apiVersion": "meta.k8s.io/v1", "kind": "Table", "metadata": metadata, "columnDefinitions": definitions, "rows": rows })
}

/// Returns the row of an object.
pub(super) fn row(seen: &TableContext<'_>, object: &Arc<Object>, include: Include) -> Value {
    let cells: Vec<Value> = match seen.resource.printer_columns() {
        Some(columns) => columns.iter().map(|column| (column.cell)(object, seen.now)).collect(),
        None => cells(seen.version, object, seen.now),
    };
    json!({ "cells": cells, "object": include.of(object) })
}

/// The kind of the objects in a table, and the current time.
#[derive(Clone, Copy)]
pub(super) struct TableContext<'a> {
    pub(super) resource: &'a ApiResource,
    pub(super) version: &'a Version,
    pub(super) now: Timestamp,
}

impl Include {
    fn of(self, object: &Arc<Object>) -> Value {
        match self {
            Self::None => Value::Null,
            Self::Metadata => respond::partial(object),
            Self::Object => Value::Object(object.0.clone()),
        }
    }
}

/// Returns a bookmark as a table whose only row has the annotations.
pub(super) fn bookmark(object: &Arc<Object>) -> Value {
    json!({
        "apiVersion": "meta.k8s.io/v1",
        "kind": "Table",
        "metadata": { "resourceVersion": object.resource_version() },
        "columnDefinitions": [],
        "rows": [{ "cells": [], "object": respond::partial(object) }],
    })
}

fn builtin_definition(column: &PrinterColumn) -> Value {
    let PrinterColumn { name, format, priority, cell: _ } = column;
    json!({ "name": name, "type": "string", "format": format, "description": "", "priority": priority })
}

fn definitions(version: &Version) -> Vec<Value> {
    let definition = |column: &Column| {
        json!({
            "name": column.name, "type": column.type_, "format": column.format, "description": column.description, "priority": column.priority,
        })
    };
    let name = json!({ "name": "Name", "type": "string", "format": "name", "description": "Name must be unique within a namespace.", "priority": 0 });
    std::iter::once(name).chain(version.columns.iter().map(definition)).collect()
}

fn cells(version: &Version, object: &Object, now: Timestamp) -> Vec<Value> {
    let whole = Value::Object(object.0.clone());
    let rest = version.columns.iter().map(|column| cell(column, &whole, now));
    std::iter::once(Value::from(object.name())).chain(rest).collect()
}

/// Returns the value at a column's path, if it has the column's type (like `cellForJSONValue` of
/// apiextensions-apiserver).
fn cell(column: &Column, object: &Value, now: Timestamp) -> Value {
    let found = jsonpath::find(object, &column.path, &mut StepsLeft(MAX_STEPS)).unwrap_or_default();
    let Some(first) = found.first() else { return Value::Null };
    match (column.type_.as_str(), first) {
        ("integer", Value::Number(n)) => {
            n.as_i64().or_else(|| n.as_f64().map(|f| f as i64)).map_or(Value::Null, Value::from)
        }
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => (*first).clone(),
        ("string", _) => found.iter().map(|value| text(value)).collect::<Vec<_>>().join(",").into(),
        ("date", Value::String(at)) => store::age(at, now),
        _ => Value::Null,
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
