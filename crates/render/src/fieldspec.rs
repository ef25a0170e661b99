//! Visits the fields that a specification names, through lists, and creates them if requested.

use super::config::is_selected;
use super::error::{Reason, RenderError};
use super::kustomization::FieldSpec;
use super::resource::Resource;
use yaml::{Entry, Map, Node, Scalar, Style, Tag, Value};

type Result<T> = std::result::Result<T, Box<RenderError>>;

/// The value to create for a field that is absent or `null`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Create {
    /// Nothing.
    Never,
    Map,
    /// An empty scalar with a tag.
    Scalar(Tag),
}

/// Calls `set` on every field of an object that matches the specification.
///
/// # Errors
/// Returns the error of `set`. Also fails if a value on the path is not a map. The error has the object's
/// location.
pub(super) fn visit(
    resource: &mut Resource,
    spec: &FieldSpec,
    create: Create,
    set: &mut dyn FnMut(&mut Node) -> Result<()>,
) -> Result<()> {
    if !is_selected(&resource.gvk(), &spec.gvk) {
        return Ok(());
    }
    let path = split(&spec.path, '/');
    let create = if spec.create { create } else { Create::Never };
    if create == Create::Never && !is_there(&resource.node, &path) {
        return Ok(());
    }
    let walked = walk(&mut resource.node, &path, create, set);
    walked.map_err(|mut error| {
        if error.file.is_empty() {
            error.file = resource.location.file.clone();
            return Box::new(error.line(resource.location.line).field(format!(
                "{} of {}",
                spec.path,
                resource.id()
            )));
        }
        error
    })
}

/// Returns true if a walk without creation finds a field to set or a mistake on the path. Otherwise, the object
/// need not be copied.
fn is_there(node: &Node, path: &[String]) -> bool {
    let Some((part, rest)) = path.split_first() else { return true };
    match &node.value {
        _ if node.is_null() => false,
        Value::List(items) => items.iter().any(|item| is_there(item, path)),
        Value::Map(map) => {
            let (name, is_list) = part.strip_suffix("[]").map_or((part.as_str(), false), |name| (name, true));
            // A null list becomes an empty list.
            let leads_on = |entry: &Entry| is_there(&entry.node, rest) || is_list && entry.node.is_null();
            name.is_empty() || map.get(name).is_some_and(leads_on)
        }
        Value::Scalar(_) => true,
    }
}

fn walk(
    node: &mut Node,
    path: &[String],
    create: Create,
    set: &mut dyn FnMut(&mut Node) -> Result<()>,
) -> Result<()> {
    let Some((part, rest)) = path.split_first() else { return set(node) };
    if node.is_null() {
        return Ok(());
    }
    let line = node.line;
    match &mut node.value {
        Value::List(items) => items.iter_mut().try_for_each(|item| walk(item, path, create, set)),
        Value::Map(map) => match field(map, part, rest.is_empty(), create)? {
            Some(field) => walk(field, rest, create, set),
            None => Ok(()),
        },
        Value::Scalar(_) => {
            let message = format!("a map or list is expected where {part:?} should be, not {}", node.kind());
            Err(Box::new(RenderError::new(Reason::InvalidValue, "", message).line(line)))
        }
    }
}

/// Returns the field of a map. Replaces `null` with the value to create.
fn field<'a>(map: &'a mut Map, part: &str, is_last: bool, create: Create) -> Result<Option<&'a mut Node>> {
    let (name, is_list) = part.strip_suffix("[]").map_or((part, false), |name| (name, true));
    if name.is_empty() {
        return Err(Box::new(RenderError::new(Reason::InvalidValue, "", "the path has an empty part")));
    }
    let made = match (create, is_list, is_last) {
        (_, true, _) => Some(Value::List(Vec::new())),
        (Create::Never, false, _) => None,
        (Create::Map, false, _) | (_, false, false) => Some(Value::Map(Map::new())),
        (Create::Scalar(tag), false, true) => {
            Some(Value::Scalar(Scalar { text: String::new(), tag, style: Style::Plain }))
        }
    };
    if let (Some(made), false) = (&made, is_list || create == Create::Never) {
        map.entry(name.to_owned()).or_insert_with(|| Node::from(made.clone()).into());
    }
    let Some(entry) = map.get_mut(name) else { return Ok(None) };
    if let (true, Some(made)) = (entry.node.is_null(), made) {
        entry.node.value = made;
    }
    Ok(Some(&mut entry.node))
}

/// Sets the text and tag of a scalar. If it is quoted, it keeps the quotes and becomes a string.
///
/// # Errors
/// Fails if the node is not a scalar.
pub(super) fn set_scalar(node: &mut Node, text: &str, tag: Tag) -> Result<()> {
    let line = node.line;
    let kind = node.kind();
    match &mut node.value {
        Value::Scalar(scalar) => {
            let style = super::resource::untagged(scalar.style);
            let tag = if style == Style::Plain { tag } else { Tag::Str };
            *scalar = Scalar { text: text.into(), tag, style };
            Ok(())
        }
        Value::List(_) | Value::Map(_) => Err(Box::new(
            RenderError::new(
                Reason::InvalidValue,
                "",
                format!("a single value is expected here, not {kind}"),
            )
            .line(line),
        )),
    }
}

/// Splits a path at a separator, unless a backslash precedes it. Drops a leading separator.
pub(super) fn split(path: &str, separator: char) -> Vec<String> {
    let path = path.strip_prefix(separator).filter(|rest| !rest.is_empty()).unwrap_or(path);
    let mut parts: Vec<String> = Vec::new();
    let mut joins = false;
    for part in path.split(separator) {
        let escaped = part.strip_suffix('\\');
        let text = escaped.unwrap_or(part);
        match parts.last_mut() {
            Some(last) if joins => {
                last.push(separator);
                last.push_str(text);
            }
            _ => parts.push(text.to_owned()),
        }
        joins = escaped.is_some();
    }
    // A trailing backslash escapes nothing.
    if joins && let Some(last) = parts.last_mut() {
        last.push('\\');
    }
    parts
}

/// Splits a path at dots, but not within `[name=a.b]` and `[a.b]`. Drops brackets without `=`.
pub(super) fn split_dotted(path: &str) -> Vec<String> {
    let mut parts = split(path, '.').into_iter();
    let mut result = Vec::new();
    while let Some(part) = parts.next() {
        if !part.starts_with('[') || part.ends_with(']') {
            result.push(part);
            continue;
        }
        let mut whole = part;
        for next in parts.by_ref() {
            whole.push('.');
            whole.push_str(&next);
            if next.ends_with(']') {
                break;
            }
        }
        result.push(if whole.contains('=') { whole } else { whole.trim_matches(['[', ']']).to_owned() });
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_split_as_kustomize_splits_them() {
        assert_eq!(split("a/b\\/c/d", '/'), ["a", "b/c", "d"]);
        assert_eq!(split("/a", '/'), ["a"]);
        assert_eq!(split_dotted("a.[name=x.y].b"), ["a", "[name=x.y]", "b"]);
        assert_eq!(split_dotted("metadata.annotations.[a.b/c]"), ["metadata", "annotations", "a.b/c"]);
        assert_eq!(split_dotted("a.[x=1].0"), ["a", "[x=1]", "0"]);
        assert_eq!(split_dotted("a.config\\.yaml"), ["a", "config.yaml"]);
    }
}
