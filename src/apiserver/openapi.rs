//! OpenAPI v3 documents, one for each group version. `kubectl explain` reads them, and kubectl takes the query
//! parameters from them. The single v2 document is derived from their schemas.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::openapi_v2;
use super::request::Accept;
use super::respond::{self, HandlerResult};
use store::{self, ApiError, ApiResource, Store, Version};

/// The cached documents, by path.
#[derive(Debug, Default)]
pub(super) struct Documents(Mutex<BTreeMap<String, Document>>);

#[derive(Debug)]
struct Document {
    /// The kinds in the document. Other kinds require another document.
    sources: Vec<Arc<ApiResource>>,
    text: Arc<Vec<u8>>,
    hash: String,
}

fn document_answer(bytes: Vec<u8>, media_type: &'static str) -> Response {
    let mut response = Response::new(Body::from(bytes));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// Answers `/openapi/v2`, which clients read once, and again when definitions change. Clients request its
/// protobuf form with a media type that no other response has.
pub(super) fn answer_v2(accept: Accept, served: &ByPath) -> Response {
    let schemas = served.iter().flat_map(|(path, sources)| schemas(path, sources)).collect();
    let document = openapi_v2::document(&schemas);
    if accept == Accept::None {
        return document_answer(openapi_v2::protobuf(&document), openapi_v2::PROTOBUF);
    }
    respond::json(StatusCode::OK, &document)
}

/// Resources by the path of their group version, such as `apis/apps/v1`.
type ByPath = BTreeMap<String, Vec<Arc<ApiResource>>>;

/// Returns the resources that a store serves.
pub(super) fn by_path(store: &Store) -> ByPath {
    let mut paths = ByPath::new();
    for resource in store.resources() {
        for version in resource.versions.iter().filter(|v| v.served) {
            paths.entry(group_path(resource, &version.name)).or_default().push(resource.clone());
        }
    }
    paths
}

fn group_path(resource: &ApiResource, version: &str) -> String {
    if resource.group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{}/{version}", resource.group)
    }
}

impl Documents {
    /// Answers `/openapi/v3` and the paths below it; `None` for every other path.
    pub(super) fn answer(&self, path: &str, served: impl FnOnce() -> ByPath) -> Option<HandlerResult> {
        let below = path.strip_prefix("/openapi/v3")?;
        let served = served();
        match below.trim_matches('/') {
            "" => {
                let paths = served.into_iter().map(|(path, sources)| {
                    let (_, hash) = self.get(&path, sources);
                    (path.clone(), json!({ "serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}") }))
                });
                Some(Ok(respond::json(StatusCode::OK, &json!({ "paths": paths.collect::<Map<_, _>>() }))))
            }
            path => match served.get(path) {
                None => Some(Err(ApiError::no_such_path())),
                Some(sources) => {
                    let text = self.get(path, sources.clone()).0.to_vec();
                    Some(Ok(document_answer(text, "application/json")))
                }
            },
        }
    }

    fn get(&self, path: &str, sources: Vec<Arc<ApiResource>>) -> (Arc<Vec<u8>>, String) {
        let mut documents = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |known: &Document| {
            known.sources.len() == sources.len()
                && known.sources.iter().zip(&sources).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        if let Some(known) = documents.get(path).filter(|known| same(known)) {
            return (known.text.clone(), known.hash.clone());
        }
        let text = Arc::new(document(path, &sources).to_string().into_bytes());
        let hash: String = Sha256::digest(&*text).iter().map(|byte| format!("{byte:02X}")).collect();
        documents.insert(path.to_owned(), Document { sources, text: text.clone(), hash: hash.clone() });
        (text, hash)
    }
}

fn document(path: &str, sources: &[Arc<ApiResource>]) -> Value {
    let mut paths = Map::new();
    for (resource, version) in versions(path, sources) {
        add_paths(&mut paths, &format!("/{path}"), resource, version);
    }
    json!({
        "openapi": "3.0.0",
        "info": { "title": "Wheelwright", "version": super::VERSION },
        "paths": paths,
        "components": { "schemas": schemas(path, sources) },
    })
}

/// Returns the resources of a group version.
fn versions<'a>(
    path: &'a str,
    sources: &'a [Arc<ApiResource>],
) -> impl Iterator<Item = (&'a ApiResource, &'a Version)> {
    sources.iter().flat_map(move |resource| {
        let served = move |version: &&Version| version.served && group_path(resource, &version.name) == path;
        resource.versions.iter().filter(served).map(move |version| (&**resource, version))
    })
}

/// Returns the schemas of a group version by name, including the definitions that they reference.
fn schemas(path: &str, sources: &[Arc<ApiResource>]) -> Map<String, Value> {
    let kinds = versions(path, sources);
    let mut schemas = kinds
        .map(|(resource, version)| (schema_name(resource, version), schema(resource, version)))
        .collect();
    add_referenced(&mut schemas);
    schemas
}

/// Adds the definitions that schemas reference, recursively.
fn add_referenced(schemas: &mut Map<String, Value>) {
    let mut wanted: Vec<String> = schemas.values().flat_map(references).collect();
    while let Some(name) = wanted.pop() {
        if let (false, Some(definition)) = (schemas.contains_key(&name), store::definitions().get(&name)) {
            wanted.extend(references(definition));
            schemas.insert(name, definition.clone());
        }
    }
}

/// Returns the names of the definitions that a schema references.
fn references(schema: &Value) -> Vec<String> {
    match schema {
        Value::Object(fields) => {
            let own = fields
                .get("$ref")
                .and_then(Value::as_str)
                .and_then(|path| path.rsplit('/').next())
                .map(str::to_owned);
            own.into_iter().chain(fields.values().flat_map(references)).collect()
        }
        Value::Array(items) => items.iter().flat_map(references).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

/// Returns the name of a schema, such as `io.example.v1.Thing`. Like kube-apiserver for custom resources, it
/// reverses the group.
fn schema_name(resource: &ApiResource, version: &Version) -> String {
    let mut parts: Vec<&str> = resource.group.split('.').rev().filter(|part| !part.is_empty()).collect();
    if parts.is_empty() {
        parts = vec!["io", "k8s", "api", "core"];
    }
    parts.extend([version.name.as_str(), resource.kind.as_str()]);
    parts.join(".")
}

fn gvk(resource: &ApiResource, version: &Version) -> Value {
    json!({ "group": resource.group, "version": version.name, "kind": resource.kind })
}

/// Returns the schema of a kind, with the common fields of all objects.
fn schema(resource: &ApiResource, version: &Version) -> Value {
    let mut schema = match &*version.openapi {
        Value::Object(fields) => fields.clone(),
        _ => Map::from_iter([("x-kubernetes-preserve-unknown-fields".to_owned(), true.into())]),
    };
    schema.insert("type".into(), "object".into());
    schema.insert("x-kubernetes-group-version-kind".into(), json!([gvk(resource, version)]));
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        let text = |description: &str| json!({ "type": "string", "description": description });
        properties.entry("apiVersion").or_insert_with(|| {
            text("APIVersion defines the versioned schema of this representation of an object.")
        });
        properties.entry("kind").or_insert_with(|| {
            text("Kind is a string value representing the REST resource this object represents.")
        });
        let description = "Standard object's metadata.";
        let bare = |metadata: &Value| {
            ["properties", "$ref", "allOf"].iter().all(|word| metadata.get(word).is_none())
        };
        if properties.get("metadata").is_none_or(bare) {
            properties.insert("metadata".into(), json!({ "type": "object", "description": description }));
        }
    }
    Value::Object(schema)
}

fn add_paths(paths: &mut Map<String, Value>, prefix: &str, resource: &ApiResource, version: &Version) {
    let base = if resource.namespaced {
        format!("{prefix}/namespaces/{{namespace}}/{}", resource.plural)
    } else {
        format!("{prefix}/{}", resource.plural)
    };
    let parameter = |name: &str| json!({ "name": name, "in": "query", "schema": { "type": "string", "uniqueItems": true } });
    let reference = json!({ "$ref": format!("#/components/schemas/{}", schema_name(resource, version)) });
    let operation = |action: &str, names: &[&str], media: &[&str]| {
        let content: Map<String, Value> =
            media.iter().map(|m| ((*m).to_owned(), json!({ "schema": reference }))).collect();
        let mut operation = json!({
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": gvk(resource, version),
            "parameters": names.iter().copied().map(parameter).collect::<Vec<_>>(),
            "responses": { "200": { "description": "OK", "content": { "application/json": { "schema": reference } } } },
        });
        if let (false, Some(fields)) = (media.is_empty(), operation.as_object_mut()) {
            fields.insert("requestBody".into(), json!({ "content": content }));
        }
        operation
    };
    const WRITE: &[&str] = &["dryRun", "fieldManager", "fieldValidation"];
    let mut patches =
        vec!["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
    if !resource.is_custom() {
        patches.push("application/strategic-merge-patch+json");
    }
    let json_body = ["application/json"];
    let list = ["labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "watch"];
    let collection =
        json!({ "get": operation("list", &list, &[]), "post": operation("post", WRITE, &json_body) });
    let one = json!({
        "get": operation("get", &[], &[]),
        "put": operation("put", WRITE, &json_body),
        "patch": operation("patch", &["dryRun", "fieldManager", "fieldValidation", "force"], &patches),
        "delete": operation("delete", &["dryRun", "propagationPolicy"], &json_body),
    });
    paths.insert(format!("{base}/{{name}}"), one);
    paths.insert(base, collection);
}
