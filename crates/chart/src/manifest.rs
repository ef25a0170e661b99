//! Splits the output of templates into documents in installation order (Helm's `pkg/release/v1/util`).

use crate::error::Error;
use crate::value::{Map, Value};

/// A rendered document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The file that produced it, such as `chart/templates/service.yaml`.
    pub source: String,
    /// The text of the document.
    pub text: String,
    /// The kind of the object.
    pub kind: String,
    /// The events for which it is a hook. Empty if it is installed with the release.
    pub hooks: Vec<String>,
    /// The weight that sorts the hooks of an event.
    pub weight: i64,
}

impl Document {
    /// Returns true if `helm test` runs this hook.
    pub fn is_test(&self) -> bool {
        self.hooks.iter().any(|event| event == "test" || event == "test-success")
    }
}

/// The order in which Helm installs kinds.
const ORDER: [&str; 38] = [
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "SecretList",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

const EVENTS: [&str; 10] = [
    "pre-install",
    "post-install",
    "pre-delete",
    "post-delete",
    "pre-upgrade",
    "post-upgrade",
    "pre-rollback",
    "post-rollback",
    "test",
    "test-success",
];

/// Splits rendered files into documents, sorted by kind. Hooks come last.
pub(crate) fn sorted(
    files: impl IntoIterator<Item = (String, String)>,
) -> Result<(Vec<Document>, Vec<Document>), Error> {
    let mut files: Vec<(String, String)> = files.into_iter().collect();
    files.sort();
    let (mut manifests, mut hooks) = (Vec::new(), Vec::new());
    for (path, content) in files {
        if content.trim().is_empty() {
            continue;
        }
        for text in split(&content) {
            let Some(document) = document(&path, text)? else { continue };
            if document.hooks.is_empty() { &mut manifests } else { &mut hooks }.push(document);
        }
    }
    for documents in [&mut manifests, &mut hooks] {
        documents.sort_by(|a: &Document, b: &Document| rank(&a.kind).cmp(&rank(&b.kind)));
    }
    Ok((manifests, hooks))
}

/// Returns the sort key of a kind. Unknown kinds come last, sorted by name.
fn rank(kind: &str) -> (usize, &str) {
    match ORDER.iter().position(|known| *known == kind) {
        Some(at) => (at, ""),
        None => (ORDER.len(), kind),
    }
}

/// Splits a file at lines that start with `---`.
fn split(content: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut at = 0;
    for line in content.split_inclusive('\n') {
        if let Some(rest) = line.strip_prefix("---") {
            parts.push(content.get(start..at).unwrap_or_default());
            start = at + 3 + (rest.len() - rest.trim_start_matches([' ', '\t']).len());
        }
        at += line.len();
    }
    parts.push(content.get(start..).unwrap_or_default());
    parts.into_iter().map(str::trim_start).filter(|part| !part.is_empty()).collect()
}

fn document(path: &str, text: &str) -> Result<Option<Document>, Error> {
    let bad = |reason: String| {
        Error::new(format!("YAML parse error on {path}: {reason}"))
            .in_file(path, None)
            .hint("lines are counted in what the template makes; `wheelwright render --chart` with other values shows it")
    };
    let value =
        crate::yaml::read(text).map_err(|reason| bad(format!("error converting YAML to JSON: {reason}")))?;
    let head = match value {
        Value::Map(map) => map,
        Value::Missing | Value::Nil => Map::new(std::collections::BTreeMap::new()),
        other => {
            let typ = other.kind_name();
            return Err(bad(format!(
                "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {typ} into Go value of type util.SimpleHead"
            )));
        }
    };
    let text_of = |key: &str| match head.get(key) {
        None | Some(Value::Missing | Value::Nil) => Ok(String::new()),
        Some(Value::Str(text)) => Ok(text.to_string()),
        Some(other) => Err(bad(format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go struct field \
             SimpleHead.{key} of type string",
            go_json_type(&other)
        ))),
    };
    let kind = text_of("kind")?;
    text_of("apiVersion")?;
    let annotations = annotations(&head).map_err(bad)?;
    let mut document =
        Document { source: path.to_owned(), text: text.to_owned(), kind, hooks: Vec::new(), weight: 0 };
    let Some(events) = annotations.iter().find(|(key, _)| key == "helm.sh/hook") else {
        return Ok(Some(document));
    };
    for event in events.1.split(',') {
        let event = event.trim().to_lowercase();
        if !EVENTS.contains(&event.as_str()) {
            // Helm only prints a warning and drops the hook.
            return Ok(None);
        }
        document.hooks.push(event);
    }
    let weight = annotations.iter().find(|(key, _)| key == "helm.sh/hook-weight");
    document.weight = weight.and_then(|(_, weight)| weight.parse().ok()).unwrap_or(0);
    Ok(Some(document))
}

fn go_json_type(value: &Value) -> &'static str {
    match value {
        Value::List(_) => "array",
        Value::Map(_) => "object",
        Value::Bool(_) => "bool",
        _ => "number",
    }
}

fn annotations(head: &Map) -> Result<Vec<(String, String)>, String> {
    let wrong = |field: &str, value: &Value, typ: &str| {
        format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go struct field \
             .{field} of type {typ}",
            go_json_type(value)
        )
    };
    let metadata = match head.get("metadata") {
        None | Some(Value::Missing | Value::Nil) => return Ok(Vec::new()),
        Some(Value::Map(map)) => map,
        Some(other) => return Err(wrong("metadata", &other, "struct")),
    };
    match metadata.get("name") {
        None | Some(Value::Missing | Value::Nil | Value::Str(_)) => {}
        Some(other) => return Err(wrong("metadata.name", &other, "string")),
    }
    let annotations = match metadata.get("annotations") {
        None | Some(Value::Missing | Value::Nil) => return Ok(Vec::new()),
        Some(Value::Map(map)) => map,
        Some(other) => return Err(wrong("metadata.annotations", &other, "map[string]string")),
    };
    let text = |(key, value): (std::rc::Rc<str>, Value)| match value {
        Value::Str(text) => Ok((key.to_string(), text.to_string())),
        Value::Missing | Value::Nil => Ok((key.to_string(), String::new())),
        other => Err(wrong("metadata.annotations", &other, "string")),
    };
    annotations.snapshot().into_iter().map(text).collect()
}
