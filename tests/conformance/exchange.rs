//! Sends requests in a short notation and normalizes responses.
//!
//! A step is one line and a body: `POST configmaps`, `MERGE widgets/a?fieldManager=x`, `GET configmaps/a as bob`,
//! `GET roles/a until 404`. `MAKE` is a `POST` whose success is recorded without the object. `{ns}` stands for the
//! namespace of the case, `$2` for the resource version and `$uid2` for the uid in the second response.

use std::time::{Duration, Instant};

use axum::http::Method;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::api::{APPLY, Api, JSON_PATCH, MERGE, Reply, STRATEGIC};

/// Maximum wait for the response that a step names.
const WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// Resource, group and version, kind, and true if it is namespaced.
const RESOURCES: &[(&str, &str, &str, bool)] = &[
    ("configmaps", "v1", "ConfigMap", true),
    ("secrets", "v1", "Secret", true),
    ("services", "v1", "Service", true),
    ("serviceaccounts", "v1", "ServiceAccount", true),
    ("pods", "v1", "Pod", true),
    ("events", "v1", "Event", true),
    ("namespaces", "v1", "Namespace", false),
    ("deployments", "apps/v1", "Deployment", true),
    ("controllerrevisions", "apps/v1", "ControllerRevision", true),
    ("leases", "coordination.k8s.io/v1", "Lease", true),
    ("roles", "rbac.authorization.k8s.io/v1", "Role", true),
    ("rolebindings", "rbac.authorization.k8s.io/v1", "RoleBinding", true),
    ("clusterroles", "rbac.authorization.k8s.io/v1", "ClusterRole", false),
    ("clusterrolebindings", "rbac.authorization.k8s.io/v1", "ClusterRoleBinding", false),
    ("certificatesigningrequests", "certificates.k8s.io/v1", "CertificateSigningRequest", false),
    ("customresourcedefinitions", "apiextensions.k8s.io/v1", "CustomResourceDefinition", false),
    ("selfsubjectaccessreviews", "authorization.k8s.io/v1", "SelfSubjectAccessReview", false),
    ("subjectaccessreviews", "authorization.k8s.io/v1", "SubjectAccessReview", false),
    ("validatingadmissionpolicies", "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", false),
    (
        "validatingadmissionpolicybindings",
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicyBinding",
        false,
    ),
    ("widgets", "conformance.wheelwright.dev/v1", "Widget", true),
    ("managedclusters", "cluster.open-cluster-management.io/v1", "ManagedCluster", false),
    ("managedclusteraddons", "addon.open-cluster-management.io/v1alpha1", "ManagedClusterAddOn", true),
    ("klusterlets", "operator.open-cluster-management.io/v1", "Klusterlet", false),
    ("clustermanagers", "operator.open-cluster-management.io/v1", "ClusterManager", false),
];

/// The request of one step.
#[derive(Clone, Debug)]
pub(super) struct Step {
    line: String,
    body: Value,
}

/// The responses of a case so far.
pub(super) struct Exchange {
    api: Api,
    answers: Vec<Value>,
}

impl Step {
    pub(super) fn new(line: impl Into<String>, body: Value) -> Self {
        Self { line: line.into(), body }
    }

    /// Reads a step from a file: a map from one line to its body.
    pub(super) fn read(value: &Value) -> Self {
        let (line, body) = value.as_object().and_then(|map| map.iter().next()).expect("a step is one line");
        Self::new(line.clone(), body.clone())
    }

    /// Returns the step as a request of a user; an empty name means an administrator.
    pub(super) fn by(self, user: &str) -> Self {
        if user.is_empty() { self } else { Self { line: format!("{} as {user}", self.line), ..self } }
    }

    /// Returns true if a user other than an administrator sends the request.
    pub(super) fn has_user(&self) -> bool {
        self.line.contains(" as ")
    }

    /// Returns the step with a value in place of `$row`.
    pub(super) fn with_row(&self, row: &Value) -> Self {
        let line = row.as_str().map_or_else(|| self.line.clone(), |text| self.line.replace("$row", text));
        Self { line, body: replaced(&self.body, &|text| (text == "$row").then(|| row.clone())) }
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.line, self.body)
    }
}

impl Exchange {
    pub(super) fn new(api: Api) -> Self {
        Self { api, answers: Vec::new() }
    }

    /// Sends a step and returns the response without the parts that differ from run to run.
    pub(super) async fn send(&mut self, step: &Step) -> Value {
        let line = self.filled(&step.line);
        let (line, until) = match line.split_once(" until ") {
            Some((line, code)) => (line.to_owned(), Some(code.parse::<u16>().unwrap())),
            None => (line, None),
        };
        let body = replaced(&step.body, &|text| Some(self.filled(text).into()));
        let deadline = Instant::now() + WITHIN;
        let reply = loop {
            let reply = self.ask(&line, &body).await;
            match until {
                Some(code) if reply.code != code && Instant::now() < deadline => {
                    tokio::time::sleep(POLL).await
                }
                Some(_) | None => break reply,
            }
        };
        self.answers.push(reply.body.clone());
        if line.starts_with("MAKE ") && reply.code == 201 {
            return json!({ "code": reply.code });
        }
        self.normal(&reply)
    }

    fn filled(&self, text: &str) -> String {
        let mut text = text.replace("{ns}", &self.api.namespace);
        // Replace in reverse order, so that `$12` is not read as `$1`.
        for (i, answer) in self.answers.iter().enumerate().rev() {
            let at = |pointer: &str| answer.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            text = text.replace(&format!("$uid{}", i + 1), at("/metadata/uid"));
            text = text.replace(&format!("$next{}", i + 1), at("/metadata/continue"));
            text = text.replace(&format!("${}", i + 1), at("/metadata/resourceVersion"));
        }
        text
    }

    async fn ask(&self, line: &str, body: &Value) -> Reply {
        let (line, user) = line.split_once(" as ").unwrap_or((line, ""));
        let (line, accept) = line.split_once(" accept ").unwrap_or((line, ""));
        let (word, path) = line.split_once(' ').expect("a line is a verb and a path");
        if let Some(count) = word.strip_prefix("WATCH") {
            let (path, _) = self.path(path);
            let events = self.api.watch(&path, count.parse().unwrap()).await;
            return Reply::made(line, json!({ "events": events }));
        }
        let (path, kind) = self.path(path);
        let (method, content_type) = match word {
            "GET" => (Method::GET, ""),
            "POST" | "MAKE" => (Method::POST, "application/json"),
            "PUT" => (Method::PUT, "application/json"),
            "DELETE" => (Method::DELETE, "application/json"),
            "JSON" => (Method::PATCH, JSON_PATCH),
            "MERGE" => (Method::PATCH, MERGE),
            "STRATEGIC" => (Method::PATCH, STRATEGIC),
            "APPLY" => (Method::PATCH, APPLY),
            other => panic!("{other} is no verb of a step"),
        };
        let mut body = body.clone();
        if let (Some((api_version, kind)), Some(fields), "POST" | "MAKE" | "PUT" | "APPLY") =
            (kind, body.as_object_mut(), word)
        {
            fields.entry("apiVersion").or_insert_with(|| api_version.into());
            fields.entry("kind").or_insert_with(|| kind.into());
        }
        let accept = match accept {
            "" => "application/json",
            "table" => "application/json;as=Table;g=meta.k8s.io;v=v1",
            "metadata" => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            "list" => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            other => other,
        };
        if let Some((list, query)) = path.split_once('?')
            && query.contains("resourceVersion=0")
        {
            self.catch_up(list).await;
        }
        let mut headers = vec![("accept", accept), ("user-agent", "conformance")];
        if !content_type.is_empty() {
            headers.push(("content-type", content_type));
        }
        if !user.is_empty() {
            headers.push(("impersonate-user", user));
        }
        let text = match &body {
            Value::Null => None,
            Value::String(raw) => Some(raw.clone()),
            body => Some(body.to_string()),
        };
        self.api.send(method, &path, &headers, text).await
    }

    /// Waits until the server's cache contains earlier writes, because kube-apiserver answers reads at version 0
    /// (any version) from its current cache.
    async fn catch_up(&self, list: &str) {
        let latest = self.api.get(list).await.is(200);
        let version = latest.body["metadata"]["resourceVersion"].as_str().expect("a list has a version");
        self.api
            .get(&format!("{list}?resourceVersion={version}&resourceVersionMatch=NotOlderThan"))
            .await
            .is(200);
    }

    /// Expands a short path; also returns the kind of a whole object at it.
    fn path(&self, short: &str) -> (String, Option<(&'static str, &'static str)>) {
        if short.starts_with('/') {
            return (short.to_owned(), None);
        }
        let end = short.find(['/', '?']).unwrap_or(short.len());
        let (resource, rest) = short.split_at(end);
        let (resource, group_version, kind, namespaced) = *RESOURCES
            .iter()
            .find(|known| known.0 == resource)
            .unwrap_or_else(|| panic!("{resource} is not listed"));
        let root = if group_version == "v1" { "/api/v1".into() } else { format!("/apis/{group_version}") };
        let within = if namespaced { format!("/namespaces/{}", self.api.namespace) } else { String::new() };
        let is_whole = !rest.trim_start_matches('/').contains('/') || rest.contains("/status");
        (format!("{root}{within}/{resource}{rest}"), is_whole.then_some((group_version, kind)))
    }

    fn normal(&self, reply: &Reply) -> Value {
        let mut answer = json!({ "code": reply.code });
        let body = &reply.body;
        if body["kind"] == "Status" && body["status"] == "Failure" {
            answer["reason"] = body["reason"].clone();
            // The text of a policy comes from its author.
            let denial = body["message"].as_str().filter(|text| text.contains("ValidatingAdmissionPolicy '"));
            if let Some(message) = denial {
                // The error text of an expression depends on the CEL implementation.
                let message = message.split(" resulted in error: ").next().unwrap_or_default();
                answer["message"] = self.plain_text(message).into();
            }
            for field in ["name", "group", "kind"] {
                if let Some(value) = body["details"].get(field) {
                    answer[field] = self.plain(value);
                }
            }
            let mut causes: Vec<Value> = body["details"]["causes"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|cause| json!([cause["field"], cause["reason"]]))
                .collect();
            causes.sort_by_key(Value::to_string);
            causes.dedup();
            if !causes.is_empty() {
                answer["causes"] = causes.into();
            }
        } else {
            answer["body"] = self.plain(body);
        }
        if !reply.warnings.is_empty() {
            answer["warnings"] = self.plain(&reply.warnings.clone().into());
        }
        answer
    }

    /// Returns a value with the parts that differ from run to run replaced by placeholders.
    fn plain(&self, value: &Value) -> Value {
        match value {
            Value::String(text) if text.parse::<Timestamp>().is_ok() => "<time>".into(),
            Value::String(text) => self.plain_text(text).into(),
            Value::Array(items) => {
                items.iter().filter(|item| !is_by_controllers(item)).map(|item| self.plain(item)).collect()
            }
            Value::Object(fields) => Value::Object(self.plain_fields(fields)),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// Returns a text without the namespace of the case and the uids of its objects.
    fn plain_text(&self, text: &str) -> String {
        let mut text = text.replace(&self.api.namespace, "{ns}");
        for uid in self.answers.iter().filter_map(|answer| answer.pointer("/metadata/uid")?.as_str()) {
            text = text.replace(uid, "<uid>");
        }
        text
    }

    fn plain_fields(&self, fields: &Map<String, Value>) -> Map<String, Value> {
        let is_generated = fields.contains_key("generateName");
        let is_column = fields.contains_key("priority");
        let is_managed = fields.contains_key("fieldsV1");
        // Column descriptions come from the OpenAPI document, and the order of managed fields entries within one
        // second varies.
        let is_shown = |field: &str| !(is_column && field == "description" || is_managed && field == "time");
        let plain = |(field, value): (&String, &Value)| {
            let value = match (field.as_str(), value) {
                ("uid" | "resourceVersion" | "continue", Value::String(text)) if !text.is_empty() => {
                    format!("<{field}>").into()
                }
                ("name", Value::String(_)) if is_generated => "<generated>".into(),
                ("clusterIP", Value::String(text)) if text != "None" => "<address>".into(),
                ("clusterIPs", Value::Array(_)) => "<addresses>".into(),
                ("managedFields", Value::Array(_)) => sorted(&self.plain(value)),
                _ => self.plain(value),
            };
            (self.plain_text(field), value)
        };
        fields.iter().filter(|(field, _)| is_shown(field)).map(plain).collect()
    }
}

/// Returns true if a list item is one that the control plane creates in every namespace.
fn is_by_controllers(item: &Value) -> bool {
    let metadata = item.get("object").unwrap_or(item).get("metadata");
    metadata.and_then(|metadata| metadata.get("name")) == Some(&json!("kube-root-ca.crt"))
}

fn sorted(list: &Value) -> Value {
    let mut items = list.as_array().cloned().unwrap_or_default();
    items.sort_by_key(Value::to_string);
    items.into()
}

/// Returns a value with some of its texts replaced.
fn replaced(value: &Value, with: &impl Fn(&str) -> Option<Value>) -> Value {
    match value {
        Value::String(text) => with(text).unwrap_or_else(|| value.clone()),
        Value::Array(items) => items.iter().map(|item| replaced(item, with)).collect(),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(name, value)| (name.clone(), replaced(value, with))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}
