//! Applies patches to objects.

use serde_json::Value as Json;

use super::entry::PatchOptions;
use super::json6902::Operation;
use super::source::PatchContent;
use super::strategic;
use crate::budget::MemoryBudget;
use crate::decode::Result;
use crate::error::{Reason, RenderError, did_you_mean};
use crate::kustomization::Selector;
use crate::resmap::ResMap;
use crate::resource::{ResId, Resource};
use crate::schemas::Schemas;
use object::Location;
use yaml::{Node, Reading, Scalar, Style, Tag, Value};

/// A patch being applied.
pub(super) struct Application<'a> {
    pub options: PatchOptions,
    /// The schemas that determine how lists merge.
    pub schemas: &'a Schemas,
    /// The location in the kustomization that refers to the patch.
    pub location: &'a Location,
    /// The field at this location.
    pub field: &'a str,
    pub budget: &'a MemoryBudget<'a>,
}

impl Application<'_> {
    fn error(&self, message: impl Into<String>) -> Box<RenderError> {
        Box::new(RenderError::at(Reason::Patch, self.location, message).field(self.field))
    }

    /// Adds the location of the patch to an error without a file.
    fn placed(&self, error: RenderError) -> Box<RenderError> {
        let error = RenderError { file: self.location.file.clone(), ..error };
        Box::new(error.line(self.location.line).field(self.field))
    }

    /// Applies an entry of `patches`.
    ///
    /// # Errors
    /// Fails if the patch matches no object or does not fit an object.
    pub(super) fn apply(
        &self,
        resmap: &mut ResMap,
        target: Option<&Selector>,
        content: PatchContent,
    ) -> Result<()> {
        match (content, target) {
            (PatchContent::Json(operations), Some(target)) => {
                for resource in resmap.iter_mut().filter(|resource| resource.is_selected(target)) {
                    resource.remember();
                }
                self.apply_json(resmap, target, &operations)
            }
            (PatchContent::Json(_), None) => Err(Box::new(
                self.error("a JSON patch needs a target")
                    .hint("add target with the kind and name of the object"),
            )),
            (PatchContent::Strategic(patches), Some(target)) => match patches.as_slice() {
                [one] => self.merge_selected(resmap, target, one),
                [] | [_, _, ..] => Err(self
                    .error("a patch with several documents cannot have a target, because each document names its object")),
            },
            (PatchContent::Strategic(patches), None) => {
                let is_marked = self.options.allow_name_change || self.options.allow_kind_change;
                for patch in patches {
                    let patch = if is_marked { with_texts(patch, &["annotations"]) } else { patch };
                    self.merge_by_id(resmap, patch)?;
                }
                Ok(())
            }
        }
    }

    /// Applies a strategic merge patch of `patchesStrategicMerge` to the object that it names.
    ///
    /// # Errors
    /// Fails if the object does not exist or the patch does not fit it.
    pub(super) fn merge_named(&self, resmap: &mut ResMap, patch: Resource) -> Result<()> {
        self.merge_by_id(resmap, with_texts(patch, &["labels", "annotations"]))?;
        resmap.retain(|resource| !resource.is_empty());
        Ok(())
    }

    fn merge_by_id(&self, resmap: &mut ResMap, patch: Resource) -> Result<()> {
        let wanted = patch.id();
        let mut found = resmap
            .iter_mut()
            .filter(|resource| !resource.is_empty() && resource.all_ids().any(|id| id == wanted));
        match (found.next(), found.next()) {
            (Some(one), None) => self.merge_into(one, patch.node.into_inner()),
            (Some(one), Some(other)) => {
                let error = self.error(format!("the patch matches several objects named {wanted}"));
                Err(Box::new(error.related(&one.location).related(&other.location)))
            }
            (None, _) => {
                drop(found);
                Err(self.no_such_object(resmap, &wanted))
            }
        }
    }

    fn no_such_object(&self, resmap: &ResMap, wanted: &ResId) -> Box<RenderError> {
        let error = self.error(format!("the patch refers to {wanted}, which does not exist"));
        let near = resmap.iter().find(|resource| {
            resource.kind() == wanted.gvk.kind && resource.all_ids().any(|id| id.name == wanted.name)
        });
        let hint = match near {
            Some(near) if near.id().gvk != wanted.gvk => {
                Some(format!("there is one with apiVersion {}", near.api_version()))
            }
            Some(near) => Some(format!("there is one in namespace {:?}", near.id().namespace)),
            None => {
                let same_kind = resmap.iter().filter(|resource| resource.kind() == wanted.gvk.kind);
                did_you_mean(&wanted.name, same_kind.map(Resource::name))
            }
        };
        Box::new(RenderError { reason: Reason::Target, ..*error }.hint_maybe(hint))
    }

    fn merge_selected(&self, resmap: &mut ResMap, target: &Selector, patch: &Resource) -> Result<()> {
        for resource in resmap.iter_mut().filter(|resource| resource.is_selected(target)) {
            self.budget.spend(patch.node.memory()).map_err(|error| self.placed(*error))?;
            let mut change = with_texts(patch.clone(), &["labels", "annotations"]);
            change.node.set("apiVersion", Scalar::unsettled(resource.api_version()));
            self.merge_into(resource, change.node.into_inner())?;
        }
        resmap.retain(|resource| !resource.is_empty());
        Ok(())
    }

    fn merge_into(&self, resource: &mut Resource, patch: Node) -> Result<()> {
        let PatchOptions { allow_name_change, allow_kind_change } = self.options;
        let (kind, name, namespace) =
            (resource.kind().to_owned(), resource.name().to_owned(), resource.namespace().to_owned());
        if allow_name_change || allow_kind_change {
            resource.remember();
        }
        let object = std::mem::replace(&mut resource.node, Node::empty_map().into()).into_inner();
        let merged = strategic::merge(object, patch, self.schemas).map_err(|mut error| {
            (error.file, error.line) = (self.location.file.clone(), Some(self.location.line));
            Box::new(error.field(self.field))
        })?;
        let Some(merged) = merged else { return Ok(()) };
        resource.node = merged.into();
        if resource.is_empty() {
            return Ok(());
        }
        if !allow_kind_change {
            resource.set_kind(&kind);
        }
        if !allow_name_change {
            resource.set_name(&name);
        }
        resource.set_namespace(&namespace);
        resource.spread_shared();
        Ok(())
    }

    /// Applies a JSON patch to the objects that a target selects.
    ///
    /// # Errors
    /// Fails if an operation cannot be applied.
    pub(super) fn apply_json(
        &self,
        resmap: &mut ResMap,
        target: &Selector,
        operations: &[Operation],
    ) -> Result<()> {
        for resource in resmap.iter_mut().filter(|resource| resource.is_selected(target)) {
            let is_annotated = resource.is_annotated();
            if is_annotated {
                // kustomize's own annotations exist while the patch is applied.
                resource.node.map_at("metadata").and_then(|meta| meta.map_at("annotations"));
            }
            let in_object = |reason: String| self.error(format!("{reason}, in {}", resource.id()));
            let mut json =
                resource.node.to_json(Reading::Objects).map_err(|(_, reason)| in_object(reason.0))?;
            for operation in operations {
                let memory = operation.memory(&mut json).map_err(in_object)?;
                self.budget.spend(memory).map_err(|error| self.placed(*error))?;
                operation.apply(&mut json).map_err(in_object)?;
            }
            resource.node = from_patched(&json).into();
            if is_annotated
                && let Some(meta) = resource.node.get_mut("metadata")
                && meta.get("annotations").is_some_and(Node::is_empty)
            {
                meta.remove("annotations");
            }
        }
        Ok(())
    }
}

/// Converts all labels or annotations of a patch to strings, even `null`. kustomize does so when it copies a patch
/// for its targets and when it adds options to a patch.
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

/// Reads the result of a JSON patch. Like kustomize, reads all numbers as floats, so large integers lose
/// precision.
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

/// Returns the shortest representation of a float, with an exponent from a million upwards.
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
