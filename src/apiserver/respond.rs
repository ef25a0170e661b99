//! Responses: JSON bodies, `Status` errors, lists, and metadata-only objects.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use serde::Serialize;
use serde_json::{Value, json};

use object::Object;
use store::{ApiError, List};

/// The result of a handler.
pub(super) type HandlerResult = Result<Response, ApiError>;

/// Returns a response with a JSON body.
pub(super) fn json(code: StatusCode, body: &impl Serialize) -> Response {
    let bytes = serde_json::to_vec(body).expect("JSON values have string keys, so they serialize");
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = code;
    as_json(&mut response);
    response
}

fn as_json(response: &mut Response) {
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // As in kube-apiserver, no proxy may cache a response that only this user may see.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
}

/// Returns plain text, as used by the health endpoints.
pub(super) fn text(code: StatusCode, body: impl Into<String>) -> Response {
    let mut response = Response::new(Body::from(body.into()));
    *response.status_mut() = code;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// Returns an error response with a `Status` object.
pub(super) fn refusal(error: &ApiError) -> Response {
    let code = StatusCode::from_u16(error.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json(code, &status_value(error));
    let seconds = error.status().details.as_ref().and_then(|details| details.retry_after_seconds);
    if let Some(seconds) = seconds {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// Returns the `Status` of an error with its kind, for bodies and watch events.
pub(super) fn status_value(error: &ApiError) -> Value {
    let mut value = serde_json::to_value(error.status()).expect("a Status serializes");
    if let Some(fields) = value.as_object_mut() {
        fields.insert("kind".into(), "Status".into());
        fields.insert("apiVersion".into(), "v1".into());
        fields.entry("metadata").or_insert_with(|| json!({}));
    }
    value
}

/// Converts the result of a handler into a response.
pub(super) fn finish(answer: HandlerResult) -> Result<Response, Infallible> {
    Ok(answer.unwrap_or_else(|error| refusal(&error)))
}

/// Adds `Warning:` headers (RFC 7234, 5.5) with code 299, which kubectl prints.
pub(super) fn warn(response: &mut Response, warnings: &[String]) {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}

/// Keeps `held` until the client has read the response or disconnected.
pub(super) fn until_read(response: Response, guard: impl Send + Unpin + 'static) -> Response {
    response
        .map(|body| if body.is_end_stream() { body } else { Body::new(UntilRead { body, _guard: guard }) })
}

/// A body without a size hint, so that it is only dropped after the client has read everything before the end.
struct UntilRead<T> {
    body: Body,
    _guard: T,
}

impl<T: Unpin> HttpBody for UntilRead<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The bytes of a list that are written ahead of the client, unless one item is longer.
pub(super) const CHUNK: usize = 64 << 10;

/// Returns a list whose items are written as the client reads them. `empty` is the list without items. Its
/// last field must be `items`.
pub(super) fn list<T: Serialize>(
    empty: &impl Serialize,
    items: Vec<Arc<Object>>,
    show: impl Fn(&Arc<Object>) -> T + Send + 'static,
) -> Response {
    const END: &[u8] = b"]}";
    let mut first = serde_json::to_vec(empty).expect("JSON values have string keys, so they serialize");
    debug_assert!(first.ends_with(b"[]}"), "the items come last");
    first.truncate(first.len() - END.len());
    let mut items = items.into_iter().enumerate();
    let mut ended = false;
    let mut write = move |mut chunk: Vec<u8>| {
        while !ended && chunk.len() < CHUNK {
            let Some((i, item)) = items.next() else {
                chunk.extend(END);
                ended = true;
                break;
            };
            if i > 0 {
                chunk.push(b',');
            }
            serde_json::to_writer(&mut chunk, &show(&item)).expect("JSON values have string keys");
        }
        chunk
    };
    let first = write(first);
    let body = if first.len() < CHUNK {
        Body::from(first)
    } else {
        let rest = futures::stream::iter(std::iter::from_fn(move || {
            Some(write(Vec::new())).filter(|c| !c.is_empty())
        }));
        Body::from_stream(futures::StreamExt::map(
            futures::StreamExt::chain(futures::stream::iter([first]), rest),
            Ok::<_, Infallible>,
        ))
    };
    let mut response = Response::new(body);
    as_json(&mut response);
    response
}

/// A list in its wire format.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListBody<'a> {
    pub(super) api_version: &'a str,
    pub(super) kind: &'a str,
    pub(super) metadata: Value,
    pub(super) items: [(); 0],
}

/// An object in a list. As in Go's types, objects of built-in kinds have no kind there.
pub(super) struct Item {
    pub(super) object: Arc<Object>,
    pub(super) bare: bool,
}

impl Serialize for Item {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shown = |field: &str| !(self.bare && matches!(field, "apiVersion" | "kind"));
        serializer.collect_map(self.object.0.iter().filter(|(field, _)| shown(field)))
    }
}

/// Returns the `metadata` of a list.
pub(super) fn list_metadata(list: &List, custom: bool) -> Value {
    let mut metadata = json!({ "resourceVersion": list.resource_version });
    if let Some(fields) = metadata.as_object_mut() {
        // Go's unstructured lists always have this field.
        if custom || !list.continue_token.is_empty() {
            fields.insert("continue".into(), list.continue_token.clone().into());
        }
        if let Some(remaining) = list.remaining {
            fields.insert("remainingItemCount".into(), remaining.into());
        }
    }
    metadata
}

/// Returns an object as `PartialObjectMetadata`.
pub(super) fn partial(object: &Arc<Object>) -> Value {
    let metadata = object.0.get("metadata").cloned().unwrap_or_else(|| json!({}));
    json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata })
}

/// Returns a `Status` for a successful request.
pub(super) fn success(details: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success", "details": details })
}
