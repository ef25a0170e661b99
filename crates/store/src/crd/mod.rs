//! Custom resources: from a CustomResourceDefinition to what is served.

mod check;
mod words;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use object::{Key, Object};

use super::schema::Refs;
use super::shelf::Shelf;
use super::{
    Column, Generation, GroupResource, NameRule, Resource, Rules, Scale, Schema, Store, Version, builtin,
    metadata, prune,
};

pub(super) use check::check;
pub(super) use words::drop_unknown;

/// Held by definitions until their objects are gone.
pub(super) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn flag(value: &Value, field: &str) -> bool {
    value.get(field).and_then(Value::as_bool).unwrap_or(false)
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn texts(value: &Value, field: &str) -> Vec<String> {
    list(value, field).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn spec(definition: &Object) -> &Value {
    definition.0.get("spec").unwrap_or(&Value::Null)
}

/// Where the objects of a definition are stored.
pub(super) fn resource_id(definition: &Object) -> GroupResource {
    let spec = spec(definition);
    GroupResource::new(text(spec, "group"), spec.get("names").map_or("", |names| text(names, "plural")))
}

/// What a definition serves.
fn resource(definition: &Object) -> Resource {
    let spec = spec(definition);
    let names = spec.get("names").unwrap_or(&Value::Null);
    let versions = list(spec, "versions");
    let storage = versions.iter().find(|version| flag(version, "storage"));
    let any_status = versions.iter().any(|version| version.pointer("/subresources/status").is_some());
    Resource {
        group: text(spec, "group").into(),
        kind: text(names, "kind").into(),
        list_kind: text(names, "listKind").into(),
        plural: text(names, "plural").into(),
        singular: text(names, "singular").into(),
        short_names: texts(names, "shortNames"),
        categories: texts(names, "categories"),
        namespaced: text(spec, "scope") == "Namespaced",
        versions: versions.iter().map(version).collect(),
        storage: storage.map(|version| text(version, "name")).unwrap_or_default().into(),
        generation: if any_status { Generation::Spec } else { Generation::All },
        names: NameRule::Subdomain,
        unconditional_update: false,
        create_on_update: false,
        builtin: None,
    }
}

fn version(version: &Value) -> Version {
    let declared = version.pointer("/schema/openAPIV3Schema").cloned().unwrap_or_else(|| json!({}));
    let rules = Rules::compile(&declared).map(Arc::new);
    let openapi = with_type_and_metadata(declared);
    let mut schema = Schema::read(&openapi, &mut Refs::none());
    schema.properties.insert("metadata".into(), builtin::schemas::metadata());
    let name = text(version, "name");
    let warning = version.get("deprecationWarning").and_then(Value::as_str).map(str::to_owned);
    Version {
        name: name.into(),
        served: flag(version, "served"),
        deprecation: flag(version, "deprecated")
            .then(|| warning.unwrap_or_else(|| format!("version {name} is deprecated"))),
        schema: Arc::new(schema),
        openapi: Arc::new(openapi),
        rules,
        status: version.pointer("/subresources/status").is_some(),
        scale: version.pointer("/subresources/scale").map(scale),
        columns: list(version, "additionalPrinterColumns").iter().map(column).collect(),
        selectable: list(version, "selectableFields")
            .iter()
            .map(|f| text(f, "jsonPath").trim_start_matches('.').to_owned())
            .collect(),
    }
}

/// The declared schema with the fields that every object has.
fn with_type_and_metadata(mut schema: Value) -> Value {
    if let Some(schema) = schema.as_object_mut() {
        let fields = schema.entry("properties").or_insert_with(|| json!({}));
        if let Some(fields) = fields.as_object_mut() {
            fields.insert(
                "apiVersion".into(),
                json!({ "type": "string", "description": "The version of the schema this object is written in." }),
            );
            fields.insert("kind".into(), json!({ "type": "string", "description": "What this object is." }));
            fields.insert("metadata".into(), builtin::schemas::metadata_openapi());
        }
    }
    schema
}

fn scale(scale: &Value) -> Scale {
    let path = |field: &str| {
        text(scale, field).trim_start_matches('.').split('.').map(str::to_owned).collect::<Vec<_>>()
    };
    let selector = scale.get("labelSelectorPath").map(|_| path("labelSelectorPath"));
    Scale { spec_replicas: path("specReplicasPath"), status_replicas: path("statusReplicasPath"), selector }
}

fn column(column: &Value) -> Column {
    Column {
        name: text(column, "name").into(),
        type_: text(column, "type").into(),
        format: text(column, "format").into(),
        description: text(column, "description").into(),
        priority: column.get("priority").and_then(Value::as_i64).unwrap_or(0),
        path: text(column, "jsonPath").into(),
    }
}

/// Fills in what a definition need not say.
pub(super) fn complete(definition: &mut Object) {
    let kind =
        definition.at(&["spec", "names", "kind"]).and_then(Value::as_str).unwrap_or_default().to_owned();
    let names = definition.field_mut("spec").entry("names").or_insert_with(|| json!({}));
    if let Some(names) = names.as_object_mut() {
        names.entry("singular").or_insert_with(|| kind.to_lowercase().into());
        names.entry("listKind").or_insert_with(|| format!("{kind}List").into());
    }
    definition.field_mut("spec").entry("conversion").or_insert_with(|| json!({ "strategy": "None" }));
    for version in
        definition.field_mut("spec").get_mut("versions").and_then(Value::as_array_mut).into_iter().flatten()
    {
        let columns = version.get_mut("additionalPrinterColumns").and_then(Value::as_array_mut);
        columns.into_iter().flatten().filter_map(Value::as_object_mut).for_each(|column| {
            column.retain(|_, value| *value != json!(0) && *value != json!(""));
        });
    }
    remember_storage(definition);
}

/// Adds the storage version to `status.storedVersions`.
pub(super) fn remember_storage(definition: &mut Object) {
    let storage = resource_storage(spec(definition));
    let status = definition.field_mut("status");
    let mut stored: Vec<String> = status
        .get("storedVersions")
        .map(|_| texts(&Value::Object(status.clone()), "storedVersions"))
        .unwrap_or_default();
    if !storage.is_empty() && !stored.contains(&storage) {
        stored.push(storage);
    }
    status.insert("storedVersions".into(), stored.into());
}

fn resource_storage(spec: &Value) -> String {
    list(spec, "versions")
        .iter()
        .find(|version| flag(version, "storage"))
        .map(|version| text(version, "name").to_owned())
        .unwrap_or_default()
}

impl Store {
    /// Follows a definition that was written or removed: serves it, stops serving it, and says so in its status.
    pub(super) fn definition_changed(&mut self, old: Option<&Object>, key: &Key) {
        let Some(definition) =
            self.shelves.get(&GroupResource::definitions()).and_then(|shelf| shelf.objects.get(key)).cloned()
        else {
            if let Some(old) = old {
                self.shelves.remove(&resource_id(old));
            }
            return;
        };
        let established = self.judge_names(&definition);
        let mut next = Object::clone(&definition);
        next.field_mut("status").insert("conditions".into(), established.conditions.into());
        next.field_mut("status").insert("acceptedNames".into(), established.names);
        if !next.is_terminating() && !metadata::strings(&next, "finalizers").iter().any(|f| f == CLEANUP) {
            let mut finalizers = metadata::strings(&next, "finalizers");
            finalizers.push(CLEANUP.into());
            next.metadata_mut().insert("finalizers".into(), finalizers.into());
        }
        if established.served {
            self.serve(&definition);
        }
        if next != *definition {
            self.commit(&GroupResource::definitions(), key, Some(next));
        }
    }

    fn serve(&mut self, definition: &Object) {
        let resource = Arc::new(resource(definition));
        let id = resource.id();
        let revision = self.revision();
        match self.shelves.get_mut(&id) {
            Some(shelf) => {
                shelf.resource = resource;
                refill(shelf);
            }
            None => {
                self.shelves.insert(id, Shelf::new(resource, revision));
            }
        }
    }

    /// Whether no other definition of the group holds the names, as conditions.
    fn judge_names(&self, definition: &Object) -> Judgement {
        let id = resource_id(definition);
        let empty = Value::Null;
        let wanted = spec(definition).get("names").unwrap_or(&empty);
        let others = self
            .shelves
            .iter()
            .filter(|(other, _)| other.group == id.group && **other != id)
            .map(|(_, shelf)| &shelf.resource);
        let taken: BTreeSet<String> = others
            .clone()
            .flat_map(|r| [r.plural.clone(), r.singular.clone()].into_iter().chain(r.short_names.clone()))
            .collect();
        let kinds: BTreeSet<String> = others.flat_map(|r| [r.kind.clone(), r.list_kind.clone()]).collect();
        let clash = |names: &BTreeSet<String>, found: Vec<String>| {
            found.into_iter().find(|name| names.contains(name))
        };
        let conflict = clash(&taken, vec![text(wanted, "plural").into()])
            .map(|name| ("PluralConflict", name))
            .or_else(|| {
                clash(&taken, vec![text(wanted, "singular").into()]).map(|name| ("SingularConflict", name))
            })
            .or_else(|| clash(&taken, texts(wanted, "shortNames")).map(|name| ("ShortNamesConflict", name)))
            .or_else(|| clash(&kinds, vec![text(wanted, "kind").into()]).map(|name| ("KindConflict", name)))
            .or_else(|| {
                clash(&kinds, vec![text(wanted, "listKind").into()]).map(|name| ("ListKindConflict", name))
            });
        let since = definition.at(&["metadata", "creationTimestamp"]).cloned().unwrap_or_default();
        let condition = |type_: &str, status: &str, reason: &str, message: String| json!({ "type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": since });
        let kept = definition.at(&["status", "conditions"]).and_then(Value::as_array).into_iter().flatten();
        let kept = kept
            .filter(|c| !matches!(text(c, "type"), "NamesAccepted" | "Established" | "Terminating"))
            .cloned();
        let (mut conditions, served) = match &conflict {
            None => (
                vec![
                    condition("NamesAccepted", "True", "NoConflicts", "no conflicts found".into()),
                    condition(
                        "Established",
                        "True",
                        "InitialNamesAccepted",
                        "the initial names have been accepted".into(),
                    ),
                ],
                true,
            ),
            Some((reason, name)) => (
                vec![
                    condition("NamesAccepted", "False", reason, format!("{name:?} is already in use")),
                    condition("Established", "False", "NotAccepted", "not all names are accepted".into()),
                ],
                false,
            ),
        };
        if definition.is_terminating() {
            conditions.push(condition(
                "Terminating",
                "True",
                "InstanceDeletionPending",
                "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
                    .into(),
            ));
        }
        conditions.extend(kept);
        let names = if served { wanted.clone() } else { json!({ "plural": "", "kind": "" }) };
        Judgement { conditions, names, served }
    }
}

struct Judgement {
    conditions: Vec<Value>,
    names: Value,
    served: bool,
}

/// Fills the defaults of a new schema into what is stored, as reading from storage does; that is no write.
fn refill(shelf: &mut Shelf) {
    let resource = shelf.resource.clone();
    for object in shelf.objects.values_mut() {
        let version = object.api_version().rsplit('/').next().unwrap_or_default().to_owned();
        let Some(version) = resource.versions.iter().find(|v| v.name == version) else { continue };
        let mut filled = Value::Object(object.0.clone());
        prune::fill(&version.schema, &mut filled);
        if let Value::Object(fields) = filled
            && fields != object.0
        {
            *object = Arc::new(Object(fields));
        }
    }
}

/// The words of a map that a check goes through.
type Fields = Map<String, Value>;
