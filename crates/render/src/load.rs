//! Reads objects from files.

use std::collections::VecDeque;

use super::decode::Result;
use super::error::{Reason, RenderError};
use super::limits::{MAX_LIST_DEPTH, MAX_OBJECTS};
use super::resource::Resource;
use object::Location;
use yaml::{Node, Value, documents};

/// The beginning of a Git LFS pointer file.
const LFS_POINTER: &str = "version https://git-lfs.github.com/spec/";

/// The annotation of objects that Argo CD applies at one phase of its sync, and often deletes afterwards.
const ARGO_HOOK: &str = "argocd.argoproj.io/hook";

/// Reads the objects of a file, and splits lists of objects.
///
/// # Errors
/// Fails if the text cannot be parsed or a document is not an object.
pub(super) fn objects(file: &str, bytes: &[u8]) -> Result<Vec<Resource>> {
    let nodes = documents(bytes).map_err(|malformed| {
        let templated = malformed.reason.contains("cannot be a key") || malformed.reason.contains('%');
        let error = RenderError::malformed(file, malformed);
        let hint = templated.then(|| "templates are not rendered; commit their output instead".to_owned());
        Box::new(error.hint_maybe(hint))
    })?;
    objects_of(nodes, file)
}

/// Reads objects from documents. Splits lists of objects and appends their items at the end.
///
/// # Errors
/// Fails if a document is not an object.
pub(super) fn objects_of(nodes: Vec<Node>, file: &str) -> Result<Vec<Resource>> {
    let mut queue: VecDeque<(Node, usize)> = nodes.into_iter().map(|node| (node, 0)).collect();
    let mut resources = Vec::new();
    while let Some((mut node, depth)) = queue.pop_front() {
        if node.is_empty() {
            continue;
        }
        let location = Location { file: file.into(), line: node.line };
        name_hook(&mut node);
        check(&node, &location)?;
        if node.get("kind").is_some_and(|kind| kind.text().ends_with("List")) && node.get("items").is_some() {
            if depth >= MAX_LIST_DEPTH {
                return Err(Box::new(RenderError::at(
                    Reason::TooLarge,
                    &location,
                    format!("lists of objects are nested more than {MAX_LIST_DEPTH} levels deep"),
                )));
            }
            match node.remove("items").map(|items| (items.line, items.value)) {
                Some((_, Value::List(items))) => {
                    queue.extend(items.into_iter().map(|item| (item, depth + 1)))
                }
                Some((_, Value::Scalar(_))) | None => {}
                Some((line, Value::Map(_))) => {
                    return Err(Box::new(
                        RenderError::new(Reason::InvalidValue, file, "items must be a list, not a map")
                            .line(line)
                            .field("items"),
                    ));
                }
            }
            continue;
        }
        resources.push(Resource::new(node, location));
        if resources.len() > MAX_OBJECTS {
            let line = resources.last().map(|resource| resource.location.line).unwrap_or_default();
            let message = format!("the file contains more than {MAX_OBJECTS} objects");
            return Err(Box::new(RenderError::new(Reason::TooLarge, file, message).line(line)));
        }
    }
    Ok(resources)
}

/// Names an Argo CD hook by its `generateName`. No ConfigRepo applies hooks, so the name is never used.
fn name_hook(node: &mut Node) {
    let Some(meta) = node.get_mut("metadata") else { return };
    let text = |field: &str| meta.get(field).filter(|node| !node.is_null()).map(Node::text);
    if text("name").is_none_or(str::is_empty)
        && meta.get("annotations").is_some_and(|annotations| annotations.get(ARGO_HOOK).is_some())
        && let Some(prefix) = text("generateName").map(str::to_owned)
    {
        meta.set("name", Node::string(prefix));
    }
}

/// Checks that an object has a kind and a name. A list needs no name.
fn check(node: &Node, location: &Location) -> Result<()> {
    let error = |message: &str, field: &str| {
        let error = RenderError::at(Reason::InvalidValue, location, message);
        Err(Box::new(if field.is_empty() { error } else { error.field(field) }))
    };
    if node.text().starts_with(LFS_POINTER) {
        return error(
            "the file is a pointer of Git LFS, whose content is not in the commit; commit the manifest itself",
            "",
        );
    }
    if node.as_map().is_none() {
        return error(&format!("a Kubernetes object must be a map, not {}", node.kind()), "");
    }
    let text = |node: Option<&Node>| {
        node.filter(|node| !node.is_null()).map(Node::text).unwrap_or_default().to_owned()
    };
    let kind = text(node.get("kind"));
    if kind.is_empty() {
        return error("not a Kubernetes object: it has no kind", "kind");
    }
    if kind.ends_with("List") {
        return Ok(());
    }
    match node.get("metadata").and_then(|meta| meta.get("name")) {
        _ if !text(node.get("metadata").and_then(|meta| meta.get("name"))).is_empty() => Ok(()),
        Some(name) if name.as_scalar().is_none() => {
            error(&format!("the name must be a string, not {}", name.kind()), "metadata.name")
        }
        Some(_) | None => error(&format!("this {kind} has no name"), "metadata.name"),
    }
}
