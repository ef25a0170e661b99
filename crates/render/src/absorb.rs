//! How objects join those that are there already.

use std::collections::BTreeMap;

use super::decode::Result;
use super::error::{Reason, RenderError};
use super::generate::merge_data;
use super::kustomization::{Behavior, Generator};
use super::limits::MAX_OBJECTS;
use super::resource::{Id, Resource};
use object::Place;

/// Adds objects that must not be there yet.
///
/// # Errors
/// Names the places of two objects that are one and the same.
pub(super) fn append(resources: &mut Vec<Resource>, more: Vec<Resource>) -> Result<()> {
    let mut known: BTreeMap<Id, Place> =
        resources.iter().map(|resource| (resource.id(), resource.place.clone())).collect();
    for resource in more {
        if let Some(first) = known.insert(resource.id(), resource.place.clone()) {
            let error = RenderError::at(
                Reason::DuplicateObject,
                &resource.place,
                format!("{} is there already", resource.id()),
            );
            return Err(Box::new(
                error
                    .related(&first)
                    .hint("every object may come from one place only; use a patch to change it"),
            ));
        }
        resources.push(resource);
    }
    if resources.len() > MAX_OBJECTS {
        return Err(Box::new(RenderError::new(
            Reason::TooLarge,
            "",
            format!("more than {MAX_OBJECTS} objects"),
        )));
    }
    Ok(())
}

/// Refuses what patches and replacements may have made: an object without a kind or name, or two that are one and the same.
///
/// # Errors
/// Names the object, and the place of the other one.
pub(super) fn check_changed(resources: &[Resource]) -> Result<()> {
    let mut known: BTreeMap<Id, &Place> = BTreeMap::new();
    for resource in resources {
        let is_list = resource.kind().ends_with("List");
        for (field, text) in [("kind", resource.kind()), ("metadata.name", resource.name())] {
            if text.is_empty() && !(is_list && field == "metadata.name") {
                let error = RenderError::at(Reason::InvalidValue, &resource.place, "this object has lost it")
                    .field(field);
                return Err(Box::new(error.hint("a patch or replacement took it away")));
            }
        }
        if let Some(first) = known.insert(resource.id(), &resource.place) {
            let message = format!("{} is there twice after all changes", resource.id());
            let error = RenderError::at(Reason::DuplicateObject, &resource.place, message).related(first);
            return Err(Box::new(error.hint("a patch or replacement gave it the name of another")));
        }
    }
    Ok(())
}

/// Adds a generated object, or merges it with the one it is meant for.
///
/// # Errors
/// Where there is an object though there must be none, or none though there must be one.
pub(super) fn absorb(resources: &mut Vec<Resource>, mut made: Resource, generator: &Generator) -> Result<()> {
    let id = made.id();
    let error = |reason, message: String| {
        Box::new(RenderError::at(reason, &generator.place, message).field(generator.field.clone()))
    };
    let mut found = resources
        .iter_mut()
        .filter(|resource| !resource.is_empty() && resource.all_ids().any(|other| other == id));
    match (found.next(), found.next(), generator.behavior) {
        (None, _, Behavior::Create) => {
            drop(found);
            resources.push(made);
            Ok(())
        }
        (None, _, Behavior::Merge | Behavior::Replace) => {
            let error = error(Reason::Target, format!("there is no {id} to merge with or to replace"));
            Err(Box::new(error.hint("with behavior create, or none, it is made anew")))
        }
        (Some(old), None, Behavior::Create) => {
            let error = error(Reason::DuplicateObject, format!("{id} is there already")).related(&old.place);
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
            let error = error(Reason::Target, format!("several objects are {id}"));
            Err(Box::new(error.related(&one.place).related(&other.place)))
        }
    }
}
