//! Requests for objects: parses the body, calls the store, and responds in the requested representation.

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::body::{Body, Role};
use super::hub::{Hub, apart};
use super::request::{Accept, ApiRequest, Verb};
use super::respond::{self, HandlerResult, Item, ListBody};
use super::{authz, protobuf, table};
use object::Object;
use store::{
    ApiError, ApiResource, Deleted, FieldValidation, List, Patch, ResourcePath, Store, WriteOptions, Written,
};

/// Answers a request for the objects at a target, which the caller has authorized.
///
/// Threads that serve no connections parse bodies and create long responses. They parse the bodies of writes
/// one at a time, because a parsed body can take thirty times the memory of its text.
pub(super) async fn answer(
    hub: &Arc<Hub>,
    request: Arc<ApiRequest>,
    target: &ResourcePath,
    verb: Verb,
    body: Bytes,
) -> HandlerResult {
    if request.accept == Accept::None && verb != Verb::Watch {
        return Err(not_acceptable());
    }
    match verb {
        Verb::Get => {
            let object = hub.read(|store| store.get(target))?;
            show(hub, &request, target, StatusCode::OK, &object)
        }
        Verb::List => {
            let (hub, target) = (hub.clone(), target.clone());
            apart(move || list(&hub, &request, &target)).await
        }
        Verb::Watch => super::watch::answer(hub, &request, target).await,
        Verb::Create => {
            let options = request.write_options("CreateOptions", false)?;
            let sent = Sent { hub, request: &request, target, body };
            sent.object(options, Store::create).await
        }
        Verb::Update => {
            let options = request.write_options("UpdateOptions", false)?;
            let sent = Sent { hub, request: &request, target, body };
            sent.object(options, Store::update).await
        }
        Verb::Patch => {
            let (sender, at) = (request.clone(), target.clone());
            let written = hub
                .write(move |store, now| {
                    let (patch, body) = read_patch(&sender, &body)?;
                    let is_apply = matches!(patch, Patch::Apply(_));
                    let options = sender.write_options("PatchOptions", is_apply)?;
                    let role = if is_apply { Role::Apply } else { Role::Patch };
                    let warnings = body.warnings(role, options.field_validation)?;
                    let patch =
                        |store: &mut Store, options: &WriteOptions| store.patch(&at, &patch, options, now);
                    Ok(warned(authz::admitted(store, &at, &options, patch)?, warnings))
                })
                .await?;
            wrote(hub, &request, target, &written)
        }
        Verb::Delete => {
            let (sender, at) = (request.clone(), target.clone());
            let (deleted, waits) = hub
                .write(move |store, now| {
                    let body = read_options(&sender, &body)?;
                    let waits = body.get("orphanDependents") == Some(&Value::Bool(false));
                    Ok((store.delete(&at, &sender.delete_options(&body)?, now)?, waits))
                })
                .await?;
            delete_answer(hub, &request, target, (&deleted, waits))
        }
        Verb::DeleteCollection => {
            let deleted = delete_collection(hub, &request, target, body).await?;
            let (hub, target) = (hub.clone(), target.clone());
            apart(move || show_list(&hub, &request, &target, &deleted)).await
        }
    }
}

/// A request whose body is an object.
struct Sent<'a> {
    hub: &'a Arc<Hub>,
    request: &'a Arc<ApiRequest>,
    target: &'a ResourcePath,
    body: Bytes,
}

impl Sent<'_> {
    /// Writes the object in the body, and responds with the result.
    async fn object(
        self,
        options: WriteOptions,
        write: fn(&mut Store, &ResourcePath, Object, &WriteOptions, Timestamp) -> Result<Written, ApiError>,
    ) -> HandlerResult {
        let Self { hub, request, target, body } = self;
        let (sender, at) = (request.clone(), target.clone());
        let written = hub
            .write(move |store, now| {
                let (object, warnings) = read_object(&sender, &body, options.field_validation)?;
                let write = |store: &mut Store, options: &WriteOptions| {
                    write(store, &at, object.clone(), options, now)
                };
                Ok(warned(authz::admitted(store, &at, &options, write)?, warnings))
            })
            .await?;
        wrote(hub, request, target, &written)
    }
}

/// Deletes a collection in slices. Other writes can run between the slices.
async fn delete_collection(
    hub: &Arc<Hub>,
    request: &Arc<ApiRequest>,
    target: &ResourcePath,
    body: Bytes,
) -> Result<List, ApiError> {
    let (sender, at, which) = (request.clone(), target.clone(), request.list_options()?);
    let begun = hub.write(move |store, _| {
        let options = sender.delete_options(&read_options(&sender, &body)?)?;
        Ok((Arc::new(store.collection_to_delete(&at, &which)?), options))
    });
    let (listed, options) = begun.await?;
    let mut done = 0;
    while done < listed.items.len() {
        let (at, options, listed) = (target.clone(), options.clone(), listed.clone());
        done += hub
            .write(move |store, now| {
                let left = listed.items.get(done..).unwrap_or_default();
                store.delete_some(&at, left, &options, now)
            })
            .await?;
    }
    Ok(Arc::unwrap_or_clone(listed))
}

fn list(hub: &Hub, request: &ApiRequest, target: &ResourcePath) -> HandlerResult {
    let options = request.list_options()?;
    let list = hub.read(|store| store.list(target, &options))?;
    show_list(hub, request, target, &list)
}

fn show_list(hub: &Hub, request: &ApiRequest, target: &ResourcePath, list: &List) -> HandlerResult {
    let resource = resource_of(hub, target)?;
    let is_custom = resource.is_custom();
    let metadata = respond::list_metadata(list, request.accept == Accept::Json && is_custom);
    // The list keeps the objects in memory until the client has read them, even if other writes replace them.
    let memory = hub.in_flight.answer(&request.user, list.weight())?;
    let items = list.items.clone();
    let response = match request.accept {
        Accept::Table => {
            let include = table::Include::read(request)?;
            let (version, now) = (target.version.clone(), (hub.clock)());
            let head = {
                let context = table_context(&resource, &version, now)?;
                table::of(&context, &[], include, metadata)
            };
            respond::list(&head, items, move |object| {
                let context = table_context(&resource, &version, now).ok()?;
                Some(table::row(&context, object, include))
            })
        }
        Accept::MetadataList => {
            let (api_version, kind) = ("meta.k8s.io/v1", "PartialObjectMetadataList");
            if items.is_empty() {
                // Go writes a nil slice as null.
                let body =
                    json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata, "items": null });
                return Ok(respond::json(StatusCode::OK, &body));
            }
            respond::list(&ListBody { api_version, kind, metadata, items: [(); 0] }, items, respond::partial)
        }
        Accept::Metadata => return Err(not_acceptable()),
        Accept::Json | Accept::Discovery | Accept::None => {
            let (api_version, kind) = (&*list.api_version, &*list.kind);
            let head = ListBody { api_version, kind, metadata, items: [(); 0] };
            respond::list(&head, items, move |object| Item { object: object.clone(), bare: !is_custom })
        }
    };
    Ok(respond::until_read(response, memory))
}

fn show(
    hub: &Hub,
    request: &ApiRequest,
    target: &ResourcePath,
    code: StatusCode,
    object: &Arc<Object>,
) -> HandlerResult {
    Ok(match request.accept {
        Accept::Table if target.subresource.is_empty() || target.subresource == "status" => {
            let resource = resource_of(hub, target)?;
            let metadata = json!({ "resourceVersion": object.resource_version() });
            respond::json(
                code,
                &table::of(
                    &table_context(&resource, &target.version, (hub.clock)())?,
                    &[object],
                    table::Include::read(request)?,
                    metadata,
                ),
            )
        }
        Accept::Metadata => respond::json(code, &respond::partial(object)),
        Accept::MetadataList => {
            return Err(ApiError::unexpected(
                "an object is not a list, so it cannot be shown as a list of metadata",
            ));
        }
        Accept::Table | Accept::Json | Accept::Discovery | Accept::None => respond::json(code, &**object),
    })
}

/// Adds the warnings about the body to the result of a write.
fn warned(written: Written, mut warnings: Vec<String>) -> Written {
    warnings.extend(written.warnings);
    Written { warnings, ..written }
}

fn wrote(hub: &Hub, request: &ApiRequest, target: &ResourcePath, written: &Written) -> HandlerResult {
    let code = if written.created { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = show(hub, request, target, code, &written.object)?;
    respond::warn(&mut response, &written.warnings);
    Ok(response)
}

/// Responds to a deletion like kube-apiserver: with a `Status` if the object is gone, and with the object if it
/// is terminating.
///
/// `waits` is true if the client requested deletion of the dependents with the deprecated option
/// `orphanDependents`.
fn delete_answer(
    hub: &Hub,
    request: &ApiRequest,
    target: &ResourcePath,
    (deleted, waits): (&Deleted, bool),
) -> HandlerResult {
    match deleted {
        Deleted::Gone(object) if resource_of(hub, target)?.returns_deleted() => {
            show(hub, request, target, StatusCode::OK, object)
        }
        Deleted::Gone(object) => {
            let mut details = json!({ "name": object.name(), "kind": target.resource, "uid": object.uid() });
            if let (false, Some(fields)) = (target.group.is_empty(), details.as_object_mut()) {
                fields.insert("group".into(), target.group.clone().into());
            }
            Ok(respond::json(StatusCode::OK, &respond::success(details)))
        }
        Deleted::Terminating(object) => {
            let code = if waits { StatusCode::ACCEPTED } else { StatusCode::OK };
            show(hub, request, target, code, object)
        }
    }
}

/// Returns the resource of a target.
fn resource_of(hub: &Hub, target: &ResourcePath) -> Result<Arc<ApiResource>, ApiError> {
    let named =
        |resource: &&Arc<ApiResource>| resource.group == target.group && resource.plural == target.resource;
    hub.read(|store| store.resources().find(named).cloned()).ok_or_else(ApiError::no_such_path)
}

fn table_context<'a>(
    resource: &'a ApiResource,
    version: &str,
    now: Timestamp,
) -> Result<table::TableContext<'a>, ApiError> {
    let version = resource.served(version).ok_or_else(ApiError::no_such_path)?;
    Ok(table::TableContext { resource, version, now })
}

/// Parses a JSON or YAML body.
///
/// # Errors
/// 400 for invalid text, 415 for another content type.
pub(super) fn read_value(content_type: &str, body: &[u8]) -> Result<Value, ApiError> {
    read_body(content_type, body).map(|body| body.value)
}

fn read_body(content_type: &str, body: &[u8]) -> Result<Body, ApiError> {
    match content_type {
        "" | "application/json" | "*/*" => Body::json(body, Role::Object)
            .map_err(|e| ApiError::bad_request(format!("the body is not JSON: {e}"))),
        "application/yaml" => yaml(body, Role::Object),
        "application/vnd.kubernetes.protobuf" => {
            protobuf::decode(body).map(Body::from_value).map_err(ApiError::bad_request)
        }
        other => Err(ApiError::unsupported_media_type(format!(
            "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf; found {other:?}"
        ))),
    }
}

/// Parses YAML. Tries JSON first, because clients send JSON with this content type, and the JSON parser
/// preserves numbers and duplicate keys exactly.
fn yaml(body: &[u8], role: Role) -> Result<Body, ApiError> {
    if let Ok(body) = Body::json(body, role) {
        return Ok(body);
    }
    let text =
        std::str::from_utf8(body).map_err(|e| ApiError::bad_request(format!("error decoding YAML: {e}")))?;
    let value = serde_saphyr::from_str(text);
    value.map(Body::from_value).map_err(|e| ApiError::bad_request(format!("error decoding YAML: {e}")))
}

/// Parses the object in a body, and returns it with the warnings for the client.
fn read_object(
    request: &ApiRequest,
    body: &[u8],
    validation: FieldValidation,
) -> Result<(Object, Vec<String>), ApiError> {
    let body = read_body(&request.content_type, body)?;
    let warnings = body.warnings(Role::Object, validation)?;
    let object =
        Object::from_value(body.value).map_err(|e| ApiError::bad_request(format!("the body is {e}")))?;
    Ok((object, warnings))
}

/// Parses options; an empty body means no options.
fn read_options(request: &ApiRequest, body: &[u8]) -> Result<Value, ApiError> {
    if body.is_empty() { Ok(Value::Null) } else { read_value(&request.content_type, body) }
}

fn read_patch(request: &ApiRequest, body: &[u8]) -> Result<(Patch, Body), ApiError> {
    let of: fn(Value) -> Patch = match request.content_type.as_str() {
        "application/json-patch+json" => Patch::Json,
        "application/merge-patch+json" => Patch::Merge,
        "application/strategic-merge-patch+json" => Patch::Strategic,
        "application/apply-patch+yaml" => Patch::Apply,
        other => {
            return Err(ApiError::unsupported_media_type(format!(
                "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml; found {other:?}"
            )));
        }
    };
    let body = if request.content_type == "application/apply-patch+yaml" {
        yaml(body, Role::Apply)?
    } else {
        Body::json(body, Role::Patch)
            .map_err(|e| ApiError::bad_request(format!("error decoding patch: {e}")))?
    };
    Ok((of(body.value.clone()), body))
}

fn not_acceptable() -> ApiError {
    ApiError::not_acceptable("only the following media types are accepted: application/json")
}
