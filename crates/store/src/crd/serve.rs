//! Serves the kinds of definitions, and updates the status of definitions.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::definition::{resource, resource_id, spec, text, texts};
use crate::collection::Collection;
use crate::{GroupResource, Store, metadata, prune};
use object::{Key, Object};

impl Store {
    /// Serves the kind of a written definition, or stops serving the kind of a deleted one.
    pub(crate) fn follow_definition(&mut self, left: Option<&Object>, key: &Key) {
        match self.definition(key) {
            Some(definition) if self.judge_names(&definition).served => self.serve(&definition),
            Some(_) => {}
            None => {
                if let Some(left) = left {
                    self.collections.remove(&resource_id(left));
                }
            }
        }
    }

    /// Updates the status of a definition; returns the definition.
    pub(crate) fn write_definition_status(&mut self, key: &Key) -> Option<Arc<Object>> {
        let definition = self.definition(key)?;
        let established = self.judge_names(&definition);
        let mut next = Object::clone(&definition);
        next.field_mut("status").insert("conditions".into(), established.conditions.into());
        next.field_mut("status").insert("acceptedNames".into(), established.names);
        let mut finalizers = metadata::strings(&next, "finalizers");
        if !next.is_terminating() && !finalizers.iter().any(|f| f == metadata::CLEANUP) {
            finalizers.push(metadata::CLEANUP.into());
            next.metadata_mut().insert("finalizers".into(), finalizers.into());
        }
        if next == *definition {
            return Some(definition);
        }
        self.commit(&GroupResource::definitions(), key, Some(next))
    }

    fn definition(&self, key: &Key) -> Option<Arc<Object>> {
        self.collections.get(&GroupResource::definitions())?.objects.get(key).cloned()
    }

    fn serve(&mut self, definition: &Object) {
        let resource = Arc::new(resource(definition));
        let id = resource.id();
        let revision = self.revision();
        match self.collections.get_mut(&id) {
            Some(collection) => {
                collection.resource = resource;
                refill(collection);
            }
            None => {
                self.collections.insert(id, Collection::new(resource, revision));
            }
        }
    }

    /// Returns conditions that report whether another definition of the group has the names.
    fn judge_names(&self, definition: &Object) -> Acceptance {
        let id = resource_id(definition);
        let empty = Value::Null;
        let wanted = spec(definition).get("names").unwrap_or(&empty);
        let others = self
            .collections
            .iter()
            .filter(|(other, _)| other.group == id.group && **other != id)
            .map(|(_, collection)| &collection.resource);
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
        let before = definition.at(&["status", "conditions"]).and_then(Value::as_array).into_iter().flatten();
        let other_conditions = before
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
        conditions.extend(other_conditions);
        let names = if served { wanted.clone() } else { json!({ "plural": "", "kind": "" }) };
        Acceptance { conditions, names, served }
    }
}

struct Acceptance {
    conditions: Vec<Value>,
    names: Value,
    served: bool,
}

/// Sets the defaults of a new schema in stored objects, as a read from storage would. This is not a write.
fn refill(collection: &mut Collection) {
    let resource = collection.resource.clone();
    for object in collection.objects.values_mut() {
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
