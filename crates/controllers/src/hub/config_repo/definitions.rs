//! The schemas of CustomResourceDefinitions, from a commit and from Wheelwright.

use serde_json::{Map, Value};

use api::crds;
use engine::sync::Desired;
use object::{Gvk, Object};

/// Returns the definitions of a commit, followed by ours.
pub(super) fn all(desired: &Desired) -> impl Iterator<Item = Value> {
    let objects = desired.objects.iter().map(|desired| &desired.object);
    let definitions = objects.filter(|object| object.kind() == "CustomResourceDefinition");
    let ours = crds::all().into_iter().filter_map(|crd| serde_json::to_value(crd).ok());
    definitions.map(|object| object.0.clone().into()).chain(ours)
}

/// Returns the schema of a kind if a definition has it.
pub(super) fn schema<'a>(definition: &'a Value, kind: &Gvk) -> Option<&'a Value> {
    let spec = definition.get("spec")?;
    let is_its =
        spec.get("group")? == kind.group.as_str() && spec.pointer("/names/kind")? == kind.kind.as_str();
    let versions = spec.get("versions").filter(|_| is_its)?.as_array()?;
    let version =
        versions.iter().find(|version| version.get("name").is_some_and(|name| *name == *kind.version))?;
    version.pointer("/schema/openAPIV3Schema")
}

/// Adds the defaults of a schema to the items of lists. An API server adds them when an apply replaces a list as a
/// whole. Elsewhere, an apply keeps the defaults that the live object has.
pub(super) fn fill_lists(object: &mut Object, schema: &Value) {
    fill(&mut object.0, schema, false);
}

fn fill(fields: &mut Map<String, Value>, schema: &Value, is_in_list: bool) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (field, schema) in properties.into_iter().flatten() {
        if let Some(default) = schema.get("default").filter(|_| is_in_list) {
            fields.entry(field).or_insert_with(|| default.clone());
        }
        match (fields.get_mut(field), schema.get("items")) {
            (Some(Value::Object(fields)), _) => fill(fields, schema, is_in_list),
            (Some(Value::Array(items)), Some(schema)) => {
                items.iter_mut().filter_map(Value::as_object_mut).for_each(|item| fill(item, schema, true));
            }
            _ => {}
        }
    }
}
