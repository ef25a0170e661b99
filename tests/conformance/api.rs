//! Test helpers: raw requests, and assertions about their responses.

use std::time::{Duration, Instant};

use axum::http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};

/// Maximum wait for kube-controller-manager, which takes seconds on a busy machine.
const EVENTUALLY: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

pub(super) const MERGE: &str = "application/merge-patch+json";
pub(super) const JSON_PATCH: &str = "application/json-patch+json";
pub(super) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(super) const APPLY: &str = "application/apply-patch+yaml";

/// An API server, and the namespace of one case.
#[derive(Clone)]
pub(crate) struct Api {
    client: kube::Client,
    pub(super) namespace: String,
}

/// The response to a request.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    request: String,
    pub(super) code: u16,
    pub(super) warnings: Vec<String>,
    pub(super) body: Value,
}

impl Api {
    pub(super) async fn new(client: kube::Client, namespace: String) -> Self {
        let api = Self { client, namespace };
        api.post(
            "/api/v1/namespaces",
            &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": api.namespace } }),
        )
        .await
        .is(201);
        api
    }

    /// Returns the path of a config map, or of all of them.
    pub(super) fn config_map(&self, name: &str) -> String {
        self.core("configmaps", name)
    }

    /// Returns the path of an object of the core group in the namespace.
    pub(super) fn core(&self, resource: &str, name: &str) -> String {
        join(&format!("/api/v1/namespaces/{}/{resource}", self.namespace), name)
    }

    /// Returns the path of an object of another group in the namespace.
    pub(super) fn group(&self, group_version: &str, resource: &str, name: &str) -> String {
        join(&format!("/apis/{group_version}/namespaces/{}/{resource}", self.namespace), name)
    }

    /// Returns the path of the widgets.
    pub(super) fn widgets(&self) -> String {
        self.widget("")
    }

    /// Returns the path of a widget.
    pub(super) fn widget(&self, name: &str) -> String {
        self.group("conformance.wheelwright.dev/v1", "widgets", name)
    }

    pub(super) async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, &[], None).await
    }

    /// Sends a GET with an `Accept` header.
    pub(super) async fn get_as(&self, path: &str, accept: &str) -> Reply {
        self.send(Method::GET, path, &[("accept", accept)], None).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.send(Method::POST, path, &[("content-type", "application/json")], Some(body.to_string())).await
    }

    pub(super) async fn put(&self, path: &str, body: &Value) -> Reply {
        self.send(Method::PUT, path, &[("content-type", "application/json")], Some(body.to_string())).await
    }

    pub(super) async fn patch(&self, path: &str, content_type: &str, body: &Value) -> Reply {
        self.send(Method::PATCH, path, &[("content-type", content_type)], Some(body.to_string())).await
    }

    /// Sends a server-side apply as a field manager.
    pub(super) async fn apply(&self, path: &str, manager: &str, body: &Value) -> Reply {
        self.patch(&format!("{path}?fieldManager={manager}"), APPLY, body).await
    }

    pub(super) async fn delete(&self, path: &str, options: Value) -> Reply {
        self.send(Method::DELETE, path, &[("content-type", "application/json")], Some(options.to_string()))
            .await
    }

    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> Reply {
        let mut request = Request::builder().method(method.clone()).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = body.map_or_else(Body::empty, |text| Body::from(text.into_bytes()));
        let response = self.client.send(request.body(body).unwrap()).await.unwrap();
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let warnings =
            head.headers.get_all("warning").iter().map(|v| v.to_str().unwrap().to_owned()).collect();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::String(text));
        Reply { request: format!("{method} {path}"), code: head.status.as_u16(), warnings, body }
    }

    /// Returns up to `wanted` events of a watch; fewer if the watch ends earlier.
    pub(super) async fn watch(&self, path: &str, wanted: usize) -> Vec<Value> {
        self.watch_as(path, "application/json", wanted).await
    }

    /// Like `watch`, with a value of the header `Accept`.
    pub(super) async fn watch_as(&self, path: &str, accept: &str, wanted: usize) -> Vec<Value> {
        let request = Request::get(path).header("accept", accept).body(Body::empty()).unwrap();
        let mut body = self.client.send(request).await.unwrap().into_body();
        let (mut text, mut events) = (Vec::new(), Vec::new());
        while events.len() < wanted {
            let frame =
                tokio::time::timeout(EVENTUALLY, body.frame()).await.expect("a watch event comes in time");
            let Some(frame) = frame else { return events };
            text.extend_from_slice(frame.unwrap().data_ref().map(|d| &d[..]).unwrap_or_default());
            let mut lines: Vec<&[u8]> = text.split(|b| *b == b'\n').collect();
            let rest = lines.pop().unwrap_or_default().to_vec();
            events.extend(
                lines
                    .into_iter()
                    .filter(|l| !l.is_empty())
                    .map(|line| serde_json::from_slice::<Value>(line).unwrap()),
            );
            text = rest;
        }
        events
    }

    /// Repeats a GET until the response matches.
    pub(super) async fn until(&self, path: &str, wanted: impl Fn(&Reply) -> bool) -> Reply {
        self.repeat(path, None, wanted).await
    }

    /// Repeats a review until the response matches.
    pub(super) async fn post_until(
        &self,
        path: &str,
        body: &Value,
        wanted: impl Fn(&Reply) -> bool,
    ) -> Reply {
        self.repeat(path, Some(body), wanted).await
    }

    async fn repeat(&self, path: &str, body: Option<&Value>, wanted: impl Fn(&Reply) -> bool) -> Reply {
        let deadline = Instant::now() + EVENTUALLY;
        loop {
            let reply = match body {
                Some(body) => self.post(path, body).await,
                None => self.get(path).await,
            };
            if wanted(&reply) {
                return reply;
            }
            assert!(Instant::now() < deadline, "still {reply:?}");
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until no object exists at the path.
    pub(super) async fn until_gone(&self, path: &str) {
        self.until(path, |reply| reply.code == 404).await;
    }
}

fn join(base: &str, name: &str) -> String {
    if name.is_empty() { base.to_owned() } else { format!("{base}/{name}") }
}

impl Reply {
    /// Makes a reply from a body that was read in another way.
    pub(super) fn made(request: &str, body: Value) -> Self {
        Self { request: request.into(), code: 200, warnings: Vec::new(), body }
    }

    #[track_caller]
    pub(super) fn is(self, code: u16) -> Self {
        assert_eq!(self.code, code, "{}: {}", self.request, self.body);
        self
    }

    /// Asserts that the request was rejected.
    #[track_caller]
    pub(super) fn refused(self, code: u16, reason: &str) -> Self {
        let reply = self.is(code);
        assert_eq!(
            (&reply.body["kind"], &reply.body["reason"]),
            (&json!("Status"), &json!(reason)),
            "{}: {}",
            reply.request,
            reply.body
        );
        assert_eq!(
            (&reply.body["status"], &reply.body["code"]),
            (&json!("Failure"), &json!(code)),
            "{}: {}",
            reply.request,
            reply.body
        );
        reply
    }

    /// Asserts a value; `null` means absent.
    #[track_caller]
    pub(super) fn has(self, pointer: &str, value: Value) -> Self {
        assert_eq!(self.at(pointer), value, "{} at {pointer}: {}", self.request, self.body);
        self
    }

    /// Asserts that the message contains a text.
    #[track_caller]
    pub(super) fn says(self, part: &str) -> Self {
        let message = self.body["message"].as_str().unwrap_or_default();
        assert!(message.contains(part), "{}: {message:?} does not say {part:?}", self.request);
        self
    }

    /// Asserts that the causes name a field.
    #[track_caller]
    pub(super) fn blames(self, field: &str, reason: &str) -> Self {
        let causes =
            self.body.pointer("/details/causes").and_then(Value::as_array).cloned().unwrap_or_default();
        assert!(
            causes.iter().any(|c| c["field"] == field && c["reason"] == reason),
            "{}: no {reason} of {field} in {}",
            self.request,
            self.body
        );
        self
    }

    /// Returns a value; `null` if it is absent.
    pub(super) fn at(&self, pointer: &str) -> Value {
        self.body.pointer(pointer).cloned().unwrap_or_default()
    }

    /// Returns a text; empty if it is absent.
    pub(super) fn text(&self, pointer: &str) -> String {
        self.at(pointer).as_str().unwrap_or_default().to_owned()
    }

    /// Returns the resource version.
    pub(super) fn version(&self) -> String {
        self.text("/metadata/resourceVersion")
    }

    /// Returns the names of a list's items.
    pub(super) fn names(&self) -> Vec<String> {
        let items = self.body["items"].as_array().cloned().unwrap_or_default();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

/// Returns a config map.
pub(super) fn config_map(name: &str, data: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data })
}

/// Returns a widget.
pub(super) fn widget(name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "conformance.wheelwright.dev/v1", "kind": "Widget", "metadata": { "name": name }, "spec": spec })
}

/// Returns the same object with labels.
pub(super) fn labeled(mut object: Value, labels: Value) -> Value {
    object["metadata"]["labels"] = labels;
    object
}
