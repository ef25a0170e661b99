//! `ValueAddTransformer`: writes a value, or a part of a path, to fields.

use crate::budget::MemoryBudget;
use crate::config_object::ConfigObject;
use crate::decode::{Located, Result};
use crate::error::{Reason, RenderError};
use crate::fieldspec;
use crate::kustomization::{Selector, Text};
use crate::resource::{Resource, set_text};
use crate::transform::namespace::{self, Namespace};
use crate::transform::transformer::{Pass, Transformation, Transformer, no_fields};
use yaml::Node;

/// Adds a value. Kustomizations have no field for it.
pub(super) const VALUE_ADD: Transformer =
    Transformer { kind: "ValueAddTransformer", read_fields: no_fields, read_config };

fn read_config(config: &mut ConfigObject<'_>) -> Result<Transformation> {
    let fields = &mut config.fields;
    let value = fields.string("value")?.trim().to_owned();
    let targets = fields.list("targets", AddTarget::read)?;
    let file = fields.one("targetFilePath", Text::read)?.filter(|path| !path.text.is_empty());
    Ok(Box::new(move |pass| {
        let more = file.as_ref().map_or(Ok(Vec::new()), |path| read_targets(pass, path))?;
        let directory = pass.dir.rsplit('/').next().unwrap_or_default();
        let value = if value.is_empty() { directory } else { &value };
        for target in targets.iter().chain(&more) {
            for resource in pass.accumulator.resmap.iter_mut().filter(|resource| target.selects(resource)) {
                apply(resource, target, value, &pass.build.source.budget)?;
            }
        }
        Ok(())
    }))
}

fn read_targets(pass: &mut Pass<'_, '_>, path: &Text) -> Result<Vec<AddTarget>> {
    let (file, nodes) = pass.build.documents(pass.dir, path)?;
    let mut targets = Vec::new();
    for node in &nodes {
        let mut fields = Located::root(&file, node).fields()?;
        targets.extend(fields.list("targets", AddTarget::read)?);
        fields.finish()?;
    }
    Ok(targets)
}

/// A field that gets the value.
struct AddTarget {
    /// The objects to change. None selects all of them.
    selector: Option<Selector>,
    field_path: String,
    /// The position of the value in the file path in the field, counted from 1. 0 replaces the field.
    position: i64,
}

impl AddTarget {
    fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let position = fields.one("filePathPosition", Located::integer)?.unwrap_or_default();
        let target = Self {
            selector: fields.one("selector", Selector::read)?,
            field_path: fields.string("fieldPath")?,
            position,
        };
        fields.finish()?;
        if target.field_path.is_empty() {
            return Err(located.error(Reason::InvalidValue, "fieldPath is needed"));
        }
        if position < 0 {
            return Err(located.error(Reason::InvalidValue, "filePathPosition cannot be negative"));
        }
        Ok(target)
    }

    fn selects(&self, resource: &Resource) -> bool {
        self.selector.as_ref().is_none_or(|selector| resource.is_selected(selector))
    }
}

fn apply(resource: &mut Resource, target: &AddTarget, value: &str, budget: &MemoryBudget<'_>) -> Result<()> {
    if target.field_path == "metadata/namespace" {
        let namespace = Namespace { name: value.to_owned(), ..Namespace::default() };
        return namespace::apply(std::slice::from_mut(resource), &namespace, &[], budget);
    }
    let location = resource.location.clone();
    let wrong = |message: &str| {
        Box::new(RenderError::at(Reason::Target, &location, message).field(target.field_path.clone()))
    };
    let parts = fieldspec::split(&target.field_path, '/');
    let (last, parents) = parts.split_last().ok_or_else(|| wrong("the path is empty"))?;
    let mut at = &mut *resource.node;
    for part in parents {
        at = at.map_at(part).ok_or_else(|| wrong("a value on the path is not a map"))?;
    }
    if at.as_map().is_none() || at.get(last).is_some_and(|node| node.as_scalar().is_none()) {
        return Err(wrong("the path does not lead to a string"));
    }
    let old = at.get(last).map(Node::text).unwrap_or_default();
    budget.spend_at(&location, old.len() + value.len())?;
    let new = if target.position > 0 { insert_part(old, target.position, value) } else { value.to_owned() };
    set_text(at, last, &new);
    Ok(())
}

/// Inserts a part into a file path at a position, counted from 1. Appends it if the position is too large.
fn insert_part(path: &str, position: i64, part: &str) -> String {
    let is_absolute = path.starts_with('/');
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let index = usize::try_from(position - 1).unwrap_or_default().min(parts.len());
    parts.insert(index, part);
    format!("{}{}", if is_absolute { "/" } else { "" }, parts.join("/"))
}
