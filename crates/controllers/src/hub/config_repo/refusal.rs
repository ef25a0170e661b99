//! Finds the repository's field that an API server rejects, and suggests the intended name.

use std::collections::BTreeSet;

use serde_json::Value;
use yaml::{Node, Value as YamlValue};

use super::definitions;
use engine::sync::{Desired, DesiredObject};
use object::tree::{FileTree, TreeEntry};
use object::{Location, Object};

/// Maximum number of files to search for a patch of the field.
const MAX_FILES: usize = 1000;
/// Maximum size of these files.
const MAX_FILE_BYTES: usize = 1 << 20;

/// Start of the error for an undeclared field or a wrong type. The object follows, and then the field.
pub(super) const TYPED_PATCH: &str = "failed to create typed patch object (";

/// A part of a field path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// A field, or a key of a map.
    Field(String),
    /// A position in a list.
    Index(usize),
    /// The list item with these fields.
    Item(Vec<(String, String)>),
}

use Part::{Field, Index, Item};

/// The field of an object that an API server rejects.
pub(super) struct RefusedField(Vec<Part>);

impl RefusedField {
    /// Parses the first field in an API server's message: `.spec.clusterSet: field not declared in schema` after
    /// "failed to create typed patch object", or `spec.replicas: Invalid value: …` after "is invalid".
    pub(super) fn of(message: &str) -> Option<Self> {
        let typed = || message.split_once(TYPED_PATCH)?.1.split_once("): ");
        let (_, fields) = typed().or_else(|| message.split_once(" is invalid: "))?;
        let fields = fields.trim_start_matches('[');
        let fields = fields.strip_prefix("errors:").unwrap_or(fields).trim_start();
        let (path, _) = fields.split_once(": ")?;
        let parts = parts(path)?;
        (!parts.is_empty()).then_some(Self(parts))
    }

    /// Returns the line of the field in the object's file, or in another file below `directories` that patches the
    /// object. If the field is missing, returns the line of its closest existing parent.
    pub(super) fn location(
        &self,
        object: &DesiredObject,
        tree: &FileTree,
        directories: &BTreeSet<String>,
    ) -> Location {
        let origin = &object.origin;
        let found = read(tree, &origin.file).and_then(|documents| {
            let document = document_at(&documents, origin.line)?;
            self.line(document, &object.object)
        });
        let patch = || {
            let files = directories.iter().flat_map(|dir| tree.below(dir)).map(|(path, _)| path);
            let files = files.filter(|path| is_yaml(path)).take(MAX_FILES);
            let mut files = files.filter_map(|file| Some((file, read(tree, file)?)));
            files.find_map(|(file, documents)| {
                let documents = documents.iter().filter(|document| is_about(document, &object.object));
                let mut lines = documents.filter_map(|document| self.line(document, &object.object));
                let line = lines.find(|found| found.is_whole)?.line;
                Some(Location { file: file.to_owned(), line })
            })
        };
        match found {
            Some(Found { line, is_whole: true }) => Location { line, ..origin.clone() },
            Some(Found { line, is_whole: false }) => {
                patch().unwrap_or_else(|| Location { line, ..origin.clone() })
            }
            None => patch().unwrap_or_else(|| origin.clone()),
        }
    }

    /// Suggests a declared field for a field that no schema declares.
    pub(super) fn suggestion(&self, object: &Object, desired: &Desired) -> Option<String> {
        let (Field(last), parents) = self.0.split_last()? else { return None };
        let kind = object.gvk();
        let schema = definitions::all(desired).find_map(|one| definitions::schema(&one, &kind).cloned())?;
        let below = |schema: &Value, part: &Part| match part {
            Field(name) => {
                schema.pointer("/properties")?.get(name).or(schema.get("additionalProperties")).cloned()
            }
            Index(_) | Item(_) => schema.get("items").cloned(),
        };
        let parent = parents.iter().try_fold(schema, |schema, part| below(&schema, part))?;
        let known = parent.get("properties")?.as_object().filter(|known| !known.contains_key(last))?;
        render::did_you_mean(last, known.keys().map(String::as_str))
    }

    /// Returns the line of the field in a document; `None` if the document has no part of its path.
    fn line(&self, document: &Node, object: &Object) -> Option<Found> {
        let (mut node, mut line, mut rest) = (document, None, self.0.as_slice());
        while let Some((below, at, taken)) = step(node, rest) {
            (node, line) = (below, Some(at));
            rest = rest.get(taken..).unwrap_or_default();
        }
        let is_whole = rest.is_empty() && self.is_as_rendered(node, object);
        Some(Found { line: line?, is_whole })
    }

    /// Returns true if a field has the same value as in the rendered object. Otherwise, a patch has changed it.
    fn is_as_rendered(&self, node: &Node, object: &Object) -> bool {
        let root = Value::Object(object.0.clone());
        let rendered = self.0.iter().try_fold(&root, |value, part| match part {
            Field(name) => value.get(name),
            Index(index) => value.get(index),
            Item(fields) => value.as_array()?.iter().find(|item| {
                let is_field = |(name, wanted): &(String, String)| {
                    item.get(name).is_some_and(|value| text(value) == *wanted)
                };
                fields.iter().all(is_field)
            }),
        });
        match (&node.value, rendered) {
            (YamlValue::Scalar(scalar), Some(rendered)) => scalar.text == text(rendered),
            (YamlValue::List(_) | YamlValue::Map(_), _) | (YamlValue::Scalar(_), None) => true,
        }
    }
}

/// The line of a field, or of the part of its path that a document has.
struct Found {
    line: u32,
    is_whole: bool,
}

/// Descends one step. Returns the node, its line and the number of path parts used. A key with dots spans several
/// parts.
fn step<'n>(node: &'n Node, parts: &[Part]) -> Option<(&'n Node, u32, usize)> {
    match (&node.value, parts.first()?) {
        (YamlValue::Map(fields), Field(_)) => {
            let mut name = String::new();
            parts.iter().enumerate().find_map(|(i, part)| {
                let Field(part) = part else { return None };
                name = if i == 0 { part.clone() } else { format!("{name}.{part}") };
                let entry = fields.get(&name)?;
                Some((&entry.node, entry.line, i + 1))
            })
        }
        (YamlValue::List(items), Index(index)) => items.get(*index).map(|item| (item, item.line, 1)),
        (YamlValue::List(items), Item(wanted)) => {
            let is_field = |item: &Node, (name, value): &(String, String)| match name.as_str() {
                "" => item.text() == value,
                name => item.get(name).is_some_and(|field| field.text() == value),
            };
            // The item may omit a key with a default, such as the protocol of a port.
            let mut items = items.iter();
            let item = items.find(|item| wanted.iter().any(|one| is_field(item, one)))?;
            Some((item, item.line, 1))
        }
        (YamlValue::Scalar(_) | YamlValue::Map(_) | YamlValue::List(_), Field(_) | Index(_) | Item(_)) => {
            None
        }
    }
}

/// Parses a path such as `.spec.ports[0].name`, `spec.containers[name="web"].image` or `data[no key]`.
fn parts(path: &str) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let (inside, after) = inner.split_once(']')?;
            parts.push(bracket(inside));
            rest = after;
        } else {
            let name = rest.strip_prefix('.').unwrap_or(rest);
            let end = name.find(['.', '[']).unwrap_or(name.len());
            let (field, after) = name.split_at(end);
            if field.is_empty() || field.contains(char::is_whitespace) {
                return None;
            }
            parts.push(Field(field.to_owned()));
            rest = after;
        }
    }
    Some(parts)
}

fn bracket(inside: &str) -> Part {
    if let Ok(index) = inside.parse() {
        return Index(index);
    }
    let fields = inside.split(',').map(|field| {
        let (name, value) = field.split_once('=')?;
        Some((name.to_owned(), value.trim_matches('"').to_owned()))
    });
    fields.collect::<Option<_>>().map_or_else(|| Field(inside.to_owned()), Item)
}

fn read(tree: &FileTree, file: &str) -> Option<Vec<Node>> {
    let Some(TreeEntry::File(bytes)) = tree.entry(file) else { return None };
    (bytes.len() <= MAX_FILE_BYTES).then(|| yaml::documents(bytes).ok())?
}

fn is_yaml(path: &str) -> bool {
    [".yaml", ".yml", ".json"].iter().any(|suffix| path.ends_with(suffix))
}

/// Returns the document or list item that starts on a line.
fn document_at(documents: &[Node], line: u32) -> Option<&Node> {
    let document = documents.iter().rev().find(|document| document.line <= line)?;
    let items = match document.get("items").map(|items| &items.value) {
        Some(YamlValue::List(items)) => items.as_slice(),
        Some(YamlValue::Scalar(_) | YamlValue::Map(_)) | None => &[],
    };
    items.iter().find(|item| item.line == line).or(Some(document))
}

/// Returns true if a document may be a patch of an object: it has the same kind, and the object's name may be its
/// name with a prefix or suffix.
fn is_about(document: &Node, object: &Object) -> bool {
    let name = document.get("metadata").and_then(|metadata| metadata.get("name")).map_or("", Node::text);
    document.get("kind").map_or("", Node::text) == object.kind()
        && !name.is_empty()
        && object.name().contains(name)
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_refused_field_is_read_from_the_words_of_api_servers() {
        let field = |name: &str| Field(name.into());
        let item = |fields: &[(&str, &str)]| {
            Item(fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
        };
        for (message, path) in [
            (
                "cannot write P n/p: failed to create typed patch object (n/p; g/v1, Kind=P): .spec.clusterSet: field not declared in schema",
                Some(vec![field("spec"), field("clusterSet")]),
            ),
            (
                "failed to create typed patch object (n/p; g/v1, Kind=P): errors:\n  .spec.a: field not declared in schema\n  .spec.b: x",
                Some(vec![field("spec"), field("a")]),
            ),
            (
                "failed to create typed patch object (n/d; apps/v1, Kind=Deployment): .spec.c[name=\"web\"].ports[containerPort=80,protocol=\"TCP\"].hostPort: expected numeric",
                Some(vec![
                    field("spec"),
                    field("c"),
                    item(&[("name", "web")]),
                    field("ports"),
                    item(&[("containerPort", "80"), ("protocol", "TCP")]),
                    field("hostPort"),
                ]),
            ),
            (
                "S \"x\" is invalid: [spec.rules[1].host: Invalid value: \"-\": no, spec.b: Required value]",
                Some(vec![field("spec"), field("rules"), Index(1), field("host")]),
            ),
            (
                "ConfigMap \"x\" is invalid: data[no key]: Invalid value: \"no key\"",
                Some(vec![field("data"), field("no key")]),
            ),
            ("Service \"x\" is invalid: the whole of it: is wrong", None),
            ("configmaps is forbidden", None),
        ] {
            assert_eq!(RefusedField::of(message).map(|field| field.0), path, "{message}");
        }
    }
}
