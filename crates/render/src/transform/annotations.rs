//! The annotations of rendered objects: converts all values to strings and removes internal annotations.

use std::collections::BTreeMap;

use crate::resource::{Origin, Resource};
use yaml::Node;

const ORIGIN: &str = "config.kubernetes.io/origin";
const TRANSFORMATIONS: &str = "alpha.config.kubernetes.io/transformations";

/// Annotations that tools for kustomizations exchange, and that never reach a cluster.
const INTERNAL: [&str; 17] = [
    "internal.config.kubernetes.io/previousKinds",
    "internal.config.kubernetes.io/previousNames",
    "internal.config.kubernetes.io/prefixes",
    "internal.config.kubernetes.io/suffixes",
    "internal.config.kubernetes.io/previousNamespaces",
    "internal.config.kubernetes.io/allowNameChange",
    "internal.config.kubernetes.io/allowKindChange",
    "internal.config.kubernetes.io/refBy",
    "internal.config.kubernetes.io/generatorBehavior",
    "internal.config.kubernetes.io/needsHashSuffix",
    "internal.config.kubernetes.io/path",
    "internal.config.kubernetes.io/index",
    "internal.config.kubernetes.io/seqindent",
    "internal.config.kubernetes.io/annotations-migration-resource-id",
    "config.kubernetes.io/path",
    "config.kubernetes.io/index",
    "config.k8s.io/id",
];

/// Marks objects that only tools use. They are not rendered.
const LOCAL_CONFIG: &str = "config.kubernetes.io/local-config";

/// Returns true if only tools use an object.
pub(crate) fn is_local(resource: &Resource) -> bool {
    resource.string_map("annotations").get(LOCAL_CONFIG).is_some_and(|value| *value != "false")
}

/// Converts all annotations to strings, removes internal ones and an empty map, and adds the requested origin
/// annotations.
pub(crate) fn settle(resource: &mut Resource, with_origin: bool, with_transformations: bool) {
    let has_meta = resource.node.get("metadata").is_some_and(|meta| meta.get("annotations").is_some());
    let origin = resource.origin.take().filter(|_| with_origin);
    let transformations = std::mem::take(&mut resource.transformations);
    let transformations = Some(transformations).filter(|list| with_transformations && !list.is_empty());
    if !has_meta && origin.is_none() && transformations.is_none() {
        // Lists may lack metadata, so add it.
        if resource.node.get("metadata").is_none() {
            resource.node.set("metadata", Node::empty_map());
        }
        return;
    }
    let current = resource.string_map("annotations").into_iter();
    let mut annotations: BTreeMap<String, String> =
        current.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    annotations.retain(|key, _| !INTERNAL.contains(&key.as_str()) && key != ORIGIN && key != TRANSFORMATIONS);
    annotations.extend(origin.map(|origin| (ORIGIN.to_owned(), origin_text(&origin, ""))));
    annotations.extend(transformations.map(|list| {
        let items: String = list
            .iter()
            .map(|origin| origin_text(origin, "  "))
            .map(|text| format!("- {}", text.trim_start()))
            .collect();
        (TRANSFORMATIONS.to_owned(), items)
    }));
    resource.set_string_map("annotations", annotations);
}

/// Returns an origin as YAML.
fn origin_text(origin: &Origin, indent: &str) -> String {
    let mut lines = Vec::new();
    if !origin.path.is_empty() {
        lines.push(format!("path: {}", origin.path));
    }
    if !origin.configured_in.is_empty() {
        lines.push(format!("configuredIn: {}", origin.configured_in));
    }
    if let Some(by) = &origin.configured_by {
        lines.push("configuredBy:".into());
        let names = ["apiVersion", "kind", "name", "namespace"];
        let parts = names.iter().zip(by).filter(|(_, value)| !value.is_empty());
        lines.extend(parts.map(|(name, value)| format!("  {name}: {value}")));
    }
    lines.iter().map(|line| format!("{indent}{line}\n")).collect()
}
