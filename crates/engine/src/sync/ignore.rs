//! Fields of objects that keep their live values.

use serde_json::{Map, Value};

use api::gitops::v1alpha1::IgnoredFields;
use api::names::{CONFIG_REPO_MANAGER, IGNORE_FIELDS_ANNOTATION};
use object::fields::{Element, FieldSet, Owners};
use object::{Object, ObjectRef};

/// The path of a field: a JSON pointer (RFC 6901) in which `[key=value]` selects a list item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldPath {
    steps: Vec<PathStep>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PathStep {
    /// A field of a map.
    Field(String),
    /// The list item whose fields have these values.
    Item(Vec<(String, String)>),
}

/// A rule in a ConfigRepo's spec that ignores fields of matching objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoreRule {
    paths: Vec<FieldPath>,
    /// Empty selectors match everything.
    group: String,
    kind: String,
    namespace: String,
    name: String,
}

impl FieldPath {
    /// Parses a path.
    ///
    /// # Errors
    /// Fails if the text is not a path, or if the path leads to a field that identifies an object.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let hint = "write a path such as /spec/replicas or /spec/template/spec/containers/[name=web]/image";
        let Some(rest) = text.strip_prefix('/').filter(|rest| !rest.is_empty()) else {
            return Err(format!("{text:?} is not a field path; {hint}"));
        };
        let steps: Option<Vec<PathStep>> = rest.split('/').map(PathStep::parse).collect();
        let Some(steps) = steps else { return Err(format!("{text:?} is not a field path; {hint}")) };
        let first: Vec<&str> = rest.split('/').take(2).collect();
        if let ["apiVersion" | "kind", ..] | ["metadata"] | ["metadata", "name" | "namespace"] = first[..] {
            return Err(format!("{text:?} cannot be ignored, because it identifies the object"));
        }
        Ok(Self { steps })
    }

    /// Parses the paths in the annotation of an object.
    ///
    /// # Errors
    /// Fails if a path is malformed.
    pub(super) fn parse_annotation(object: &Object) -> Result<Vec<Self>, String> {
        let annotations = object.annotations();
        let texts = annotations.get(IGNORE_FIELDS_ANNOTATION).copied().unwrap_or_default().split_whitespace();
        let named =
            |reason| format!("the annotation {IGNORE_FIELDS_ANNOTATION} of {}: {reason}", object.reference());
        texts.map(Self::parse).collect::<Result<_, _>>().map_err(named)
    }
}

impl PathStep {
    fn parse(text: &str) -> Option<Self> {
        let Some(keys) = text.strip_prefix('[') else {
            return Some(Self::Field(text.replace("~1", "/").replace("~0", "~")))
                .filter(|_| !text.is_empty());
        };
        let pairs: Option<Vec<_>> = keys
            .strip_suffix(']')?
            .split(',')
            .map(|pair| pair.split_once('='))
            .map(|pair| pair.map(|(key, value)| (key.to_owned(), value.to_owned())))
            .collect();
        Some(Self::Item(pairs?))
    }
}

impl IgnoreRule {
    /// Parses a rule.
    ///
    /// # Errors
    /// Fails if a path is malformed.
    pub fn read(rule: &IgnoredFields) -> Result<Self, String> {
        let IgnoredFields { paths, group, kind, namespace, name, unknown: _ } = rule;
        let paths = paths
            .iter()
            .map(|path| FieldPath::parse(path))
            .collect::<Result<_, _>>()
            .map_err(|error| format!("spec.ignore: {error}"))?;
        let (group, kind) = (group.clone(), kind.clone());
        Ok(Self { paths, group, kind, namespace: namespace.clone(), name: name.clone() })
    }

    fn concerns(&self, object: &ObjectRef) -> bool {
        let fits = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        fits(&self.group, &object.gvk.group)
            && fits(&self.kind, &object.gvk.kind)
            && fits(&self.namespace, &object.key.namespace)
            && fits(&self.name, &object.key.name)
    }
}

/// Returns the paths to ignore in an object.
pub(super) fn paths_of<'a>(
    object: &'a ObjectRef,
    own: &'a [FieldPath],
    rules: &'a [IgnoreRule],
) -> Vec<&'a FieldPath> {
    let of_rules = rules.iter().filter(|rule| rule.concerns(object)).flat_map(|rule| &rule.paths);
    own.iter().chain(of_rules).collect()
}

/// Returns an object without the given fields.
pub(super) fn without(object: &Object, paths: &[&FieldPath]) -> Object {
    let mut object = object.clone();
    for path in paths {
        remove(&mut object.0, &path.steps);
    }
    object
}

/// Returns the object to apply to a live one. It omits ignored fields that another applier owns, so that only
/// that applier owns them. Other ignored fields get their live values, because the API server would remove an
/// omitted field that nobody else applies.
pub(super) fn adopted(desired: &Object, live: &Object, paths: &[&FieldPath]) -> Object {
    let owners = Owners::read(live.at(&["metadata", "managedFields"]));
    let theirs = owners.applied_by_others(CONFIG_REPO_MANAGER);
    let mut object = desired.clone();
    for path in paths {
        let live = find_in_map(&live.0, &path.steps).filter(|_| !is_in(&theirs, &path.steps));
        match live {
            Some(value) => set_in_map(&mut object.0, &path.steps, value),
            None => remove(&mut object.0, &path.steps),
        }
    }
    object
}

fn is_in(fields: &FieldSet, steps: &[PathStep]) -> bool {
    let Some((first, rest)) = steps.split_first() else { return true };
    let fits = |element: &Element| match (element, first) {
        (Element::Field(name), PathStep::Field(wanted)) => name == wanted,
        (Element::Key(key), PathStep::Item(pairs)) => {
            serde_json::from_str(key).is_ok_and(|key: Value| has_keys(&key, pairs))
        }
        (Element::Field(_) | Element::Key(_) | Element::Value(_) | Element::Index(_), _) => false,
    };
    fields.elements().any(|(element, _, below)| fits(element) && is_in(below, rest))
}

/// Returns true if a list item has the values of a step.
fn has_keys(item: &Value, pairs: &[(String, String)]) -> bool {
    pairs.iter().all(|(key, wanted)| match item.get(key) {
        Some(Value::String(text)) => text == wanted,
        Some(other) => {
            let text = other.to_string();
            text == *wanted
        }
        None => false,
    })
}

fn find_in_map<'v>(map: &'v Map<String, Value>, steps: &[PathStep]) -> Option<&'v Value> {
    let (PathStep::Field(name), rest) = steps.split_first()? else { return None };
    rest.iter().try_fold(map.get(name)?, |value, step| match step {
        PathStep::Field(name) => value.get(name),
        PathStep::Item(pairs) => value.as_array()?.iter().find(|item| has_keys(item, pairs)),
    })
}

fn remove(map: &mut Map<String, Value>, steps: &[PathStep]) {
    let Some((PathStep::Field(name), rest)) = steps.split_first() else { return };
    if rest.is_empty() {
        map.remove(name);
    } else if let Some(value) = map.get_mut(name) {
        remove_below(value, rest);
    }
}

fn remove_below(value: &mut Value, steps: &[PathStep]) {
    match (value, steps) {
        (Value::Object(map), steps) => remove(map, steps),
        (Value::Array(items), [PathStep::Item(pairs)]) => items.retain(|item| !has_keys(item, pairs)),
        (Value::Array(items), [PathStep::Item(pairs), rest @ ..]) => {
            for item in items.iter_mut().filter(|item| has_keys(item, pairs)) {
                remove_below(item, rest);
            }
        }
        _ => {}
    }
}

/// Sets a field that the commit contains. A field that it does not contain stays with its owners.
fn set_in_map(map: &mut Map<String, Value>, steps: &[PathStep], live: &Value) {
    let Some((PathStep::Field(name), rest)) = steps.split_first() else { return };
    if let Some(value) = map.get_mut(name) {
        set_below(value, rest, live);
    }
}

fn set_below(value: &mut Value, steps: &[PathStep], live: &Value) {
    match (value, steps) {
        (value, []) => value.clone_from(live),
        (Value::Object(map), steps) => set_in_map(map, steps, live),
        (Value::Array(items), [PathStep::Item(pairs), rest @ ..]) => {
            for item in items.iter_mut().filter(|item| has_keys(item, pairs)) {
                set_below(item, rest, live);
            }
        }
        _ => {}
    }
}
