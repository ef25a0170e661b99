//! The objects of a kustomization, in order.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use super::decode::Result;
use super::error::{Reason, RenderError};
use super::kustomization::{Behavior, Generator};
use super::limits::MAX_OBJECTS;
use super::resource::{ResId, Resource};
use object::Location;
use yaml::{Node, Value};

#[derive(Clone, Debug, Default)]
pub(super) struct ResMap {
    resources: Vec<Resource>,
    /// The index of each object by identity. None if objects may have changed since.
    known: Option<BTreeMap<ResId, usize>>,
}

impl Deref for ResMap {
    type Target = Vec<Resource>;

    fn deref(&self) -> &Vec<Resource> {
        &self.resources
    }
}

impl DerefMut for ResMap {
    fn deref_mut(&mut self) -> &mut Vec<Resource> {
        self.known = None;
        &mut self.resources
    }
}

impl ResMap {
    pub(super) fn into_vec(self) -> Vec<Resource> {
        self.resources
    }

    /// Appends objects that must not exist yet.
    ///
    /// # Errors
    /// Fails with both locations if two objects have the same identity.
    pub(super) fn append(&mut self, more: Vec<Resource>) -> Result<()> {
        let known = self.known.get_or_insert_with(|| {
            self.resources.iter().enumerate().map(|(index, resource)| (resource.id(), index)).collect()
        });
        for resource in more {
            let id = resource.id();
            let first = known.get(&id).and_then(|index| self.resources.get(*index));
            if let Some(first) = first {
                let message = format!("{id} exists already");
                let error = RenderError::at(Reason::DuplicateObject, &resource.location, message);
                return Err(Box::new(
                    error
                        .related(&first.location)
                        .hint("define each object only once; use a patch to change it"),
                ));
            }
            known.insert(id, self.resources.len());
            self.resources.push(resource);
        }
        if self.len() > MAX_OBJECTS {
            return Err(Box::new(RenderError::new(
                Reason::TooLarge,
                "",
                format!("the overlay produces more than {MAX_OBJECTS} objects; split it"),
            )));
        }
        Ok(())
    }

    /// Adds generated objects with identities that no object has or had.
    ///
    /// # Errors
    /// Fails with both locations if two objects have the same identity.
    pub(super) fn absorb_new(&mut self, made: Vec<Resource>) -> Result<()> {
        let known: BTreeMap<ResId, &Location> = self
            .iter()
            .filter(|resource| !resource.is_empty())
            .flat_map(|resource| resource.all_ids().map(|id| (id, &resource.location)))
            .collect();
        for resource in &made {
            let id = resource.id();
            if let Some(first) = known.get(&id) {
                let message = format!("{id} exists already");
                let error = RenderError::at(Reason::DuplicateObject, &resource.location, message);
                return Err(Box::new(error.related(first)));
            }
        }
        self.append(made)
    }

    /// Checks identities after patches and replacements: each object has a kind and a name, and no two are equal.
    ///
    /// # Errors
    /// Names the object and the location of the other one.
    pub(super) fn check_ids(&self) -> Result<()> {
        let mut known: BTreeMap<ResId, &Location> = BTreeMap::new();
        for resource in self.iter() {
            let is_list = resource.kind().ends_with("List");
            for (field, text) in [("kind", resource.kind()), ("metadata.name", resource.name())] {
                if text.is_empty() && !(is_list && field == "metadata.name") {
                    let error = RenderError::at(
                        Reason::InvalidValue,
                        &resource.location,
                        "the field was removed from the object",
                    )
                    .field(field);
                    return Err(Box::new(error.hint("a patch or replacement removed it")));
                }
            }
            if let Some(first) = known.insert(resource.id(), &resource.location) {
                let message = format!("{} exists twice after all transformations", resource.id());
                let error =
                    RenderError::at(Reason::DuplicateObject, &resource.location, message).related(first);
                return Err(Box::new(
                    error.hint("a patch or replacement renamed it to the name of another object"),
                ));
            }
        }
        Ok(())
    }

    /// Adds a generated object, or merges it with an existing object as its behavior says.
    ///
    /// # Errors
    /// Fails if the object exists and the behavior is `create`, or if it does not exist and the behavior is
    /// another one.
    pub(super) fn absorb(&mut self, mut made: Resource, generator: &Generator) -> Result<()> {
        let id = made.id();
        let error = |reason, message: String| {
            Box::new(RenderError::at(reason, &generator.location, message).field(generator.field.clone()))
        };
        let mut found = self
            .iter_mut()
            .filter(|resource| !resource.is_empty() && resource.all_ids().any(|other| other == id));
        match (found.next(), found.next(), generator.behavior) {
            (None, _, Behavior::Create) => {
                drop(found);
                self.push(made);
                Ok(())
            }
            (None, _, Behavior::Merge | Behavior::Replace) => {
                let error =
                    error(Reason::Target, format!("{id} does not exist, so it cannot be merged or replaced"));
                Err(Box::new(error.hint("remove behavior, or set it to create, to create the object")))
            }
            (Some(old), None, Behavior::Create) => {
                let error =
                    error(Reason::DuplicateObject, format!("{id} exists already")).related(&old.location);
                Err(Box::new(error.hint("set behavior to merge or replace")))
            }
            (Some(old), None, behavior @ (Behavior::Merge | Behavior::Replace)) => {
                for field in ["labels", "annotations"] {
                    let texts = |resource: &Resource| -> Vec<(String, String)> {
                        resource
                            .string_map(field)
                            .into_iter()
                            .map(|(key, value)| (key.to_owned(), value.to_owned()))
                            .collect()
                    };
                    let merged = texts(old).into_iter().chain(texts(&made)).collect();
                    made.set_string_map(field, merged);
                }
                if behavior == Behavior::Merge {
                    merge_data(&mut made.node, &old.node);
                    made.origin = old.origin.clone().or(made.origin);
                }
                made.set_name(old.name());
                made.set_namespace(old.namespace());
                made.needs_hash &= old.needs_hash;
                (made.previous, made.prefixes, made.suffixes) =
                    (old.previous.clone(), old.prefixes.clone(), old.suffixes.clone());
                made.vars.clone_from(&old.vars);
                made.transformations.clone_from(&old.transformations);
                *old = made;
                Ok(())
            }
            (Some(one), Some(other), _) => {
                let error = error(Reason::Target, format!("{id} matches several objects"));
                Err(Box::new(error.related(&one.location).related(&other.location)))
            }
        }
    }
}

/// Adds the data of an object to a generated one. The generated values win.
fn merge_data(generated: &mut Node, old: &Node) {
    for field in ["data", "binaryData"] {
        let texts = |node: &Node| -> BTreeMap<String, String> {
            let map = node.get(field).and_then(Node::as_map).into_iter().flatten();
            map.map(|(key, entry)| (key.clone(), entry.node.text().to_owned())).collect()
        };
        let mut merged = texts(old);
        merged.extend(texts(generated));
        generated.remove(field);
        if !merged.is_empty() {
            let entries = merged.into_iter().map(|(key, value)| (key, Node::string(value).into()));
            generated.set(field, Value::Map(entries.collect()));
        }
    }
}
