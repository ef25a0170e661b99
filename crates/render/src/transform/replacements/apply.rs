//! Applies replacements.

use super::fields::{FieldOptions, Replacement, SourceSelector, TargetSelector};
use crate::budget::MemoryBudget;
use crate::config::is_selected;
use crate::decode::Result;
use crate::error::{Reason, RenderError, did_you_mean};
use crate::kustomization::{Selector, Text, at};
use crate::path::{self, Shape};
use crate::resource::{DEFAULT_NAMESPACE, ResId, Resource};
use crate::transform::hash::write_json;
use object::Location;
use yaml::{Node, Reading, Scalar, Value, documents, print_stream};

/// The default field of a selector.
const DEFAULT_FIELD: &str = "metadata.name";

/// Applies replacements in order.
///
/// # Errors
/// Fails if a source or a field does not exist.
pub(super) fn apply(
    resources: &mut [Resource],
    replacements: &[Replacement],
    budget: &MemoryBudget<'_>,
) -> Result<()> {
    for replacement in replacements {
        let value = value_of(resources, replacement)?;
        for target in &replacement.targets {
            for resource in resources.iter_mut().filter(|resource| is_target(resource, target)) {
                copy(resource, &value, target, budget)?;
            }
        }
    }
    Ok(())
}

fn error(location: &Location, field: &str, message: impl Into<String>) -> Box<RenderError> {
    Box::new(RenderError::at(Reason::Target, location, message).field(field))
}

fn value_of(resources: &[Resource], replacement: &Replacement) -> Result<Node> {
    let Some(source) = &replacement.source else {
        return Ok(Scalar::unsettled(replacement.source_value.clone().unwrap_or_default()).into());
    };
    let resource = source_object(resources, source)?;
    let wanted = if source.field_path.is_empty() { DEFAULT_FIELD } else { &source.field_path };
    let at = |message: String| error(&source.location, &source.field, message);
    let found = path::lookup(&resource.node, &path::parts(wanted))
        .map_err(|reason| at(format!("fieldPath {wanted:?}: {reason}")))?;
    let found = found
        .filter(|node| !node.is_empty())
        .ok_or_else(|| at(format!("{} has no field {wanted:?}", resource.id())))?;
    if source.options.delimiter.is_empty() {
        return Ok(found.unshared());
    }
    let Some(scalar) = found.as_scalar() else {
        return Err(at(format!("a delimiter requires a string, but {wanted:?} is {}", found.kind())));
    };
    let parts: Vec<&str> = scalar.text.split(&source.options.delimiter).collect();
    let part = usize::try_from(source.options.index).ok().and_then(|index| parts.get(index));
    let part = part.ok_or_else(|| {
        at(format!("the index is {}, and {:?} has {} parts", source.options.index, scalar.text, parts.len()))
    })?;
    Ok(Scalar { text: (*part).to_owned(), ..scalar.clone() }.into())
}

fn source_object<'r>(resources: &'r [Resource], source: &SourceSelector) -> Result<&'r Resource> {
    let fits = |id: &ResId| {
        let namespace = source.namespace.as_str();
        (source.name.is_empty() || source.name == id.name)
            && (namespace.is_empty() || namespace == id.namespace)
            && is_selected(&id.gvk, &source.gvk)
    };
    let found: Vec<&Resource> = resources.iter().filter(|resource| ids(resource).iter().any(fits)).collect();
    let wanted =
        format!("{} {}", source.gvk, if source.name.is_empty() { "of any name" } else { &source.name });
    match found.as_slice() {
        [one] => Ok(one),
        [] => {
            let hint = did_you_mean(&source.name, resources.iter().map(Resource::name));
            Err(Box::new(
                error(&source.location, &source.field, format!("there is no {wanted}")).hint_maybe(hint),
            ))
        }
        several => {
            let mut error = error(
                &source.location,
                &source.field,
                format!("{wanted} could mean {} objects", several.len()),
            );
            for resource in several.iter().take(5) {
                error = Box::new(error.related(&resource.location));
            }
            Err(error)
        }
    }
}

/// Returns the identities by which replacements find an object. The current identity ignores whether the kind is
/// namespaced.
fn ids(resource: &Resource) -> Vec<ResId> {
    let namespace = if resource.namespace().is_empty() { DEFAULT_NAMESPACE } else { resource.namespace() };
    let current = ResId { namespace: namespace.to_owned(), ..resource.id() };
    [current].into_iter().chain(resource.previous_ids()).collect()
}

fn is_target(resource: &Resource, target: &TargetSelector) -> bool {
    let Some(select) = &target.select else { return false };
    let ids = ids(resource);
    let any = |selector: &Selector| {
        ids.iter().any(|id| {
            selector.matches_gvk(&id.gvk)
                && selector.matches_name(&id.name)
                && selector.matches_namespace(&id.namespace)
        })
    };
    let has_labels = |selector: &Selector| !selector.labels.is_empty() || !selector.annotations.is_empty();
    let rejected = target.reject.iter().any(|reject| {
        (has_labels(reject) && resource.meets_labels(reject)) || (!reject.names_nothing() && any(reject))
    });
    resource.meets_labels(select) && !rejected && any(select)
}

fn copy(
    resource: &mut Resource,
    value: &Node,
    target: &TargetSelector,
    budget: &MemoryBudget<'_>,
) -> Result<()> {
    let default =
        [Text { text: DEFAULT_FIELD.into(), location: target.location.clone(), field: target.field.clone() }];
    let paths = if target.field_paths.is_empty() { &default[..] } else { &target.field_paths };
    for field_path in paths {
        let parts = path::parts(&field_path.text);
        let create = target.options.create.then(|| Shape::from_node(value));
        if set_in_text(&mut resource.node, &parts, value, create, budget)
            .map_err(|error| at(field_path, error))?
        {
            continue;
        }
        let name = resource.id().to_string();
        let missing = |reason: Option<String>| {
            let made = if target.options.create { "found or made" } else { "found" };
            let detail = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            let message = format!("the field {:?} cannot be {made} in {}{detail}", field_path.text, name);
            error(&field_path.location, &field_path.field, message)
        };
        let found = path::find_all(&mut resource.node, &parts, create);
        let found = found.map_err(|reason| missing(Some(reason)))?;
        if found.is_empty() {
            return Err(missing(None));
        }
        for steps in found {
            let Some(slot) = path::at_mut(&mut resource.node, &steps) else { continue };
            budget.spend(value.memory() + slot.text().len()).map_err(|error| at(field_path, error))?;
            set(slot, value, &target.options)
                .map_err(|reason| error(&field_path.location, &field_path.field, reason))?;
        }
        resource.spread_shared();
    }
    Ok(())
}

/// Sets a value. A scalar gets the text of the value and keeps its type. Other values are replaced.
fn set(slot: &mut Node, value: &Node, options: &FieldOptions) -> std::result::Result<(), String> {
    let mut text = value.text().to_owned();
    if !options.delimiter.is_empty() {
        let Value::Scalar(scalar) = &slot.value else {
            return Err("a delimiter requires a string, but this field is not one".into());
        };
        let mut parts: Vec<&str> = scalar.text.split(&options.delimiter).collect();
        match usize::try_from(options.index) {
            Err(_) => parts.insert(0, &text),
            Ok(index) => match parts.get_mut(index) {
                Some(part) => *part = &text,
                None => parts.push(&text),
            },
        }
        text = parts.join(&options.delimiter);
    }
    match (&mut slot.value, &value.value) {
        (Value::Scalar(scalar), _) => scalar.text = text,
        (slot, Value::Scalar(scalar)) => *slot = Value::Scalar(Scalar { text, ..scalar.clone() }),
        (slot, value) => *slot = value.clone(),
    }
    Ok(())
}

/// Sets a value within a text that contains JSON or YAML. Returns false if the path does not lead into such a
/// text.
fn set_in_text(
    node: &mut Node,
    parts: &[String],
    value: &Node,
    create: Option<Shape>,
    budget: &MemoryBudget<'_>,
) -> Result<bool> {
    for cut in 1..parts.len() {
        let (outer, inner) = parts.split_at(cut);
        let Ok(Some(found)) = path::lookup(node, outer) else { continue };
        let Some(scalar) = found.as_scalar() else { continue };
        budget.spend(scalar.text.len())?;
        let text = scalar.text.clone();
        let Some(mut inside) =
            documents(text.as_bytes()).ok().and_then(|documents| documents.into_iter().next())
        else {
            return Ok(false);
        };
        let Ok(steps) = path::find_all(&mut inside, inner, create) else { return Ok(false) };
        if steps.is_empty() {
            return Ok(false);
        }
        for steps in steps {
            budget.spend(value.memory())?;
            match path::at_mut(&mut inside, &steps).map(|slot| (&mut slot.value, &value.value)) {
                Some((Value::Scalar(scalar), _)) => scalar.text = value.text().to_owned(),
                Some((slot, value)) => *slot = value.clone(),
                None => {}
            }
        }
        let Some(written) = write_like(&text, &inside) else { return Ok(false) };
        let Ok(found) = path::find_all(node, outer, None) else { return Ok(false) };
        for steps in found {
            if let Some(Node { value: Value::Scalar(scalar), .. }) = path::at_mut(node, &steps) {
                budget.spend(written.len())?;
                scalar.text.clone_from(&written);
            }
        }
        return Ok(true);
    }
    Ok(false)
}

/// Formats a value like the text it came from: single-line or multi-line JSON, or YAML.
fn write_like(text: &str, value: &Node) -> Option<String> {
    let json = value.to_json(Reading::Objects).ok()?;
    if !text.trim_start().starts_with(['{', '[']) {
        let map = json.as_object()?;
        return Some(print_stream([map]).trim_end().to_owned());
    }
    if text.contains('\n') && text.contains("  ") {
        return serde_json::to_string_pretty(&json).ok();
    }
    let mut out = String::new();
    write_json(&mut out, &json);
    Some(out)
}
