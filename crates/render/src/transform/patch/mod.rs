//! Patches: strategic merge patches and JSON patches, by target or by the name they carry.

mod items;
mod json6902;
mod strategic;

use serde_json::Value as Json;

use crate::decode::Result;
use crate::error::{Reason, RenderError, did_you_mean};
use crate::kustomization::{Patch, PatchOptions, Selector};
use crate::load::objects_of;
use crate::resource::{Id, Resource};
use crate::schemas::Schemas;
use crate::yaml::{Node, Reading, Scalar, Style, Tag, Value, documents};
use object::Place;

use json6902::Operation;

/// What a patch does, read from its text.
pub(crate) enum Change {
    /// It looks like the objects it changes.
    Strategic(Vec<Resource>),
    /// It is a list of operations.
    Json(Vec<Operation>),
}

/// Where the text of a patch stands.
#[derive(Clone, Debug)]
pub(crate) struct Written<'a> {
    /// The file of the text, or of the kustomization that holds it.
    pub file: &'a str,
    /// The kustomization's place that names the patch.
    pub place: &'a Place,
    /// The field there.
    pub field: &'a str,
    /// The line of the file before the text starts; `None` where the lines of the text mean nothing in the file.
    pub first_line: Option<u32>,
}

impl Written<'_> {
    fn error(&self, message: impl Into<String>) -> Box<RenderError> {
        Box::new(RenderError::at(Reason::Patch, self.place, message).field(self.field))
    }

    /// Gives an error about the text the place of the text.
    fn within(&self, mut error: Box<RenderError>) -> Box<RenderError> {
        match self.first_line {
            Some(first) => {
                error.line = error.line.map(|line| line + first);
                error
            }
            None => {
                (error.file, error.line) = (self.place.file.clone(), Some(self.place.line));
                Box::new(error.field(self.field))
            }
        }
    }
}

/// Reads the text of a patch of either kind.
///
/// # Errors
/// Where it is neither.
pub(crate) fn read(text: &str, written: &Written<'_>) -> Result<Change> {
    let nodes = documents(text.as_bytes()).map_err(|malformed| {
        let error = written.within(Box::new(RenderError::malformed(written.file, malformed)));
        Box::new(
            error.hint("a patch is either an object with what changes, or a list of JSON patch operations"),
        )
    })?;
    match nodes.as_slice() {
        [] => Err(written.error("the patch is empty")),
        [Node { value: Value::List(_), .. }] => read_json(text, written).map(Change::Json),
        _ => read_strategic(nodes, written).map(Change::Strategic),
    }
}

/// Reads a JSON patch.
///
/// # Errors
/// Where it is none.
pub(crate) fn read_json(text: &str, written: &Written<'_>) -> Result<Vec<Operation>> {
    let malformed = |malformed| written.within(Box::new(RenderError::malformed(written.file, malformed)));
    let node = documents(text.as_bytes()).map_err(malformed)?.into_iter().next();
    let node = node.ok_or_else(|| written.error("the patch is empty"))?;
    let json = node.to_json(Reading::Yaml11).map_err(|(line, why)| {
        written.within(Box::new(RenderError::new(Reason::InvalidValue, written.file, why.0).line(line)))
    })?;
    json6902::parse(&json).map_err(|why| written.error(why))
}

fn read_strategic(nodes: Vec<Node>, written: &Written<'_>) -> Result<Vec<Resource>> {
    let objects = objects_of(nodes, written.file).map_err(|error| written.within(error));
    objects.map(|objects| {
        let placed = |mut resource: Resource| {
            resource.place = written.place.clone();
            resource
        };
        objects.into_iter().map(placed).collect()
    })
}

/// Applies an entry of `patches`.
///
/// # Errors
/// Where it finds no object, or does not fit the object.
pub(crate) fn apply(
    resources: &mut Vec<Resource>,
    patch: &Patch,
    change: Change,
    schemas: &Schemas,
) -> Result<()> {
    let written = Written { file: "", place: &patch.place, field: &patch.field, first_line: None };
    match (change, &patch.target) {
        (Change::Json(operations), Some(target)) => {
            apply_json(resources, target, &operations, &written, true)
        }
        (Change::Json(_), None) => Err(Box::new(
            written
                .error("a JSON patch needs a target")
                .hint("add target with the kind and name of the object"),
        )),
        (Change::Strategic(patches), Some(target)) => {
            match patches.as_slice() {
                [one] => apply_to_selected(resources, target, one, patch.options, schemas, &written),
                [] | [_, _, ..] => Err(written
                    .error("a patch of several documents cannot have a target; each names its own object")),
            }
        }
        (Change::Strategic(patches), None) => {
            let marked = patch.options.allow_name_change || patch.options.allow_kind_change;
            let change = |one| if marked { with_texts(one, &["annotations"]) } else { one };
            patches
                .into_iter()
                .try_for_each(|one| apply_by_name(resources, change(one), patch.options, schemas, &written))
        }
    }
}

/// Applies a strategic merge patch to the one object it names.
///
/// # Errors
/// Where there is no such object, or the patch does not fit it.
pub(crate) fn apply_by_name(
    resources: &mut [Resource],
    patch: Resource,
    options: PatchOptions,
    schemas: &Schemas,
    written: &Written<'_>,
) -> Result<()> {
    let wanted = patch.id();
    let mut found = resources
        .iter_mut()
        .filter(|resource| !resource.is_empty() && resource.all_ids().any(|id| id == wanted));
    match (found.next(), found.next()) {
        (Some(one), None) => merge_into(one, patch.node, options, schemas, written),
        (Some(one), Some(other)) => {
            let error =
                written.error(format!("the patch names {wanted}, and that is the name of several objects"));
            Err(Box::new(error.related(&one.place).related(&other.place)))
        }
        (None, _) => {
            drop(found);
            Err(no_such_object(resources, &wanted, written))
        }
    }
}

fn no_such_object(resources: &[Resource], wanted: &Id, written: &Written<'_>) -> Box<RenderError> {
    let error = written.error(format!("the patch names {wanted}, and there is no such object"));
    let near = resources.iter().find(|resource| {
        resource.kind() == wanted.gvk.kind && resource.all_ids().any(|id| id.name == wanted.name)
    });
    let hint = match near {
        Some(near) if near.id().gvk != wanted.gvk => {
            Some(format!("there is one with apiVersion {}", near.api_version()))
        }
        Some(near) => Some(format!("there is one in namespace {:?}", near.id().namespace)),
        None => {
            let same_kind = resources.iter().filter(|resource| resource.kind() == wanted.gvk.kind);
            did_you_mean(&wanted.name, same_kind.map(Resource::name))
        }
    };
    Box::new(RenderError { reason: Reason::Target, ..*error }.hint_maybe(hint))
}

fn apply_to_selected(
    resources: &mut Vec<Resource>,
    target: &Selector,
    patch: &Resource,
    options: PatchOptions,
    schemas: &Schemas,
    written: &Written<'_>,
) -> Result<()> {
    for resource in resources.iter_mut().filter(|resource| resource.is_selected(target)) {
        let mut change = with_texts(patch.clone(), &["labels", "annotations"]);
        change.node.set("apiVersion", Scalar::unsettled(resource.api_version()));
        merge_into(resource, change.node, options, schemas, written)?;
    }
    resources.retain(|resource| !resource.is_empty());
    Ok(())
}

/// Applies `patchesStrategicMerge`.
///
/// # Errors
/// As [`apply_by_name`].
pub(crate) fn apply_strategic(
    resources: &mut Vec<Resource>,
    patch: Resource,
    schemas: &Schemas,
    written: &Written<'_>,
) -> Result<()> {
    apply_by_name(
        resources,
        with_texts(patch, &["labels", "annotations"]),
        PatchOptions::default(),
        schemas,
        written,
    )?;
    resources.retain(|resource| !resource.is_empty());
    Ok(())
}

/// Makes all labels or annotations of a patch texts, even `null`; kustomize does so when it copies a patch for its targets, and when it
/// marks one with its options.
fn with_texts(mut patch: Resource, fields: &[&str]) -> Resource {
    for field in fields {
        if patch.node.get("metadata").is_some_and(|meta| meta.get(field).is_some()) {
            let texts = patch
                .string_map(field)
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect();
            patch.set_string_map(field, texts);
        }
    }
    patch
}

fn merge_into(
    resource: &mut Resource,
    patch: Node,
    options: PatchOptions,
    schemas: &Schemas,
    written: &Written<'_>,
) -> Result<()> {
    let (kind, name, namespace) =
        (resource.kind().to_owned(), resource.name().to_owned(), resource.namespace().to_owned());
    if options.allow_name_change || options.allow_kind_change {
        resource.remember();
    }
    let object = std::mem::replace(&mut resource.node, Node::empty_map());
    let merged = strategic::merge(object, patch, schemas).map_err(|mut error| {
        (error.file, error.line) = (written.place.file.clone(), Some(written.place.line));
        Box::new(error.field(written.field))
    })?;
    let Some(merged) = merged else { return Ok(()) };
    resource.node = merged;
    if resource.is_empty() {
        return Ok(());
    }
    if !options.allow_kind_change {
        resource.set_kind(&kind);
    }
    if !options.allow_name_change {
        resource.set_name(&name);
    }
    resource.set_namespace(&namespace);
    resource.spread_shared();
    Ok(())
}

/// Applies a JSON patch to the objects a target selects.
///
/// # Errors
/// Where an operation does not apply.
pub(crate) fn apply_json(
    resources: &mut [Resource],
    target: &Selector,
    operations: &[Operation],
    written: &Written<'_>,
    remembers: bool,
) -> Result<()> {
    for resource in resources.iter_mut().filter(|resource| resource.is_selected(target)) {
        if remembers {
            resource.remember();
        }
        let annotated = resource.is_annotated();
        if annotated {
            resource.node.map_at("metadata").and_then(|meta| meta.map_at("annotations"));
        }
        let in_object = |why: String| written.error(format!("{why}, in {}", resource.id()));
        let mut json = resource.node.to_json(Reading::Objects).map_err(|(_, why)| in_object(why.0))?;
        json6902::apply(&mut json, operations).map_err(in_object)?;
        resource.node = from_patched(&json);
        if annotated
            && let Some(meta) = resource.node.get_mut("metadata")
            && meta.get("annotations").is_some_and(Node::is_empty)
        {
            meta.remove("annotations");
        }
    }
    Ok(())
}

/// Takes what a JSON patch made: kustomize reads all its numbers as floats, so large integers lose digits.
fn from_patched(json: &Json) -> Node {
    match json {
        Json::Number(number) => {
            let (text, tag) = match number.as_f64() {
                Some(float) if float.fract() == 0.0 && float.abs() < 1e6 => (format!("{float:.0}"), Tag::Int),
                Some(float) => (shortest(float), Tag::Float),
                None => (number.to_string(), Tag::Int),
            };
            Scalar { text, tag, style: Style::Plain }.into()
        }
        Json::Array(items) => Value::List(items.iter().map(from_patched).collect()).into(),
        Json::Object(map) => {
            Value::Map(map.iter().map(|(key, value)| (key.clone(), from_patched(value).into())).collect())
                .into()
        }
        other @ (Json::Null | Json::Bool(_) | Json::String(_)) => Node::from_json(other),
    }
}

/// The shortest text of a float, with an exponent from a million on.
fn shortest(float: f64) -> String {
    let scientific = format!("{float:e}");
    match scientific
        .split_once('e')
        .map(|(mantissa, exponent)| (mantissa, exponent.parse::<i32>().unwrap_or_default()))
    {
        Some((_, exponent)) if (-4..6).contains(&exponent) => float.to_string(),
        Some((mantissa, exponent)) => {
            format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
        }
        None => scientific,
    }
}
