//! The replacement transformer.

use super::apply::apply;
use super::fields::Replacement;
use crate::config_object::ConfigObject;
use crate::decode::{Fields, Located, Result};
use crate::error::Reason;
use crate::kustomization::{InlineOrFile, Text};
use crate::transform::transformer::{Pass, Transformation, Transformer};
use yaml::Value;

/// Copies values between objects.
pub(crate) const REPLACEMENT: Transformer =
    Transformer { kind: "ReplacementTransformer", read_fields, read_config };

fn read_fields(fields: &mut Fields<'_>) -> Result<Vec<Transformation>> {
    let entries = fields.list("replacements", Replacement::read_source)?;
    Ok(if entries.is_empty() { Vec::new() } else { vec![transformation(entries)] })
}

fn read_config(config: &mut ConfigObject<'_>) -> Result<Transformation> {
    Ok(transformation(config.fields.list("replacements", Replacement::read_source)?))
}

fn transformation(entries: Vec<InlineOrFile<Replacement>>) -> Transformation {
    Box::new(move |pass| {
        let mut replacements = Vec::new();
        for entry in &entries {
            match entry {
                InlineOrFile::Inline(replacement) => replacements.push(replacement.clone()),
                InlineOrFile::File(path) => replacements.extend(read_file(pass, path)?),
            }
        }
        apply(&mut pass.accumulator.resmap, &replacements, &pass.build.source.budget)
    })
}

/// Reads a file with a replacement or a list of replacements.
fn read_file(pass: &mut Pass<'_, '_>, path: &Text) -> Result<Vec<Replacement>> {
    let (file, nodes) = pass.build.documents(pass.dir, path)?;
    let Some(node) = nodes.first() else { return Ok(Vec::new()) };
    let root = Located::root(&file, node);
    match &node.value {
        Value::List(_) => root.items()?.iter().map(Replacement::read).collect(),
        Value::Map(_) => Ok(vec![Replacement::read(&root)?]),
        Value::Scalar(_) => {
            Err(root.error(Reason::InvalidValue, "a replacement or a list of replacements is expected"))
        }
    }
}
