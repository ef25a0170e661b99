//! The three patch transformers.

use super::apply::Application;
use super::entry::{Patch, PatchOptions};
use super::source::read_json;
use crate::build::Build;
use crate::config_object::ConfigObject;
use crate::decode::{Fields, Result};
use crate::error::{Reason, RenderError};
use crate::kustomization::{Text, at};
use crate::load::objects_of;
use crate::transform::transformer::{Pass, Transformation, Transformer};
use yaml::documents;

/// Applies strategic merge patches or JSON patches.
pub(crate) const PATCH: Transformer = Transformer {
    kind: "PatchTransformer",
    read_fields: |fields| Ok(transformations(fields.list("patches", Patch::read)?, apply_patch)),
    read_config: |config| {
        let patch = Patch::of_config(config, "patch")?;
        Ok(Box::new(move |pass: &mut Pass<'_, '_>| apply_patch(pass, &patch)))
    },
};

/// Applies strategic merge patches.
pub(crate) const STRATEGIC_MERGE: Transformer = Transformer {
    kind: "PatchStrategicMergeTransformer",
    read_fields: read_strategic_fields,
    read_config: read_strategic_config,
};

/// Applies JSON patches.
pub(crate) const JSON_6902: Transformer = Transformer {
    kind: "PatchJson6902Transformer",
    read_fields: |fields| Ok(transformations(fields.list("patchesJson6902", Patch::read)?, apply_json_patch)),
    read_config: |config| {
        let patch = Patch::of_config(config, "jsonOp")?;
        Ok(Box::new(move |pass: &mut Pass<'_, '_>| apply_json_patch(pass, &patch)))
    },
};

fn transformations(
    patches: Vec<Patch>,
    apply: fn(&mut Pass<'_, '_>, &Patch) -> Result<()>,
) -> Vec<Transformation> {
    let transformation =
        |patch: Patch| -> Transformation { Box::new(move |pass: &mut Pass<'_, '_>| apply(pass, &patch)) };
    patches.into_iter().map(transformation).collect()
}

fn read_strategic_fields(fields: &mut Fields<'_>) -> Result<Vec<Transformation>> {
    let texts = fields.list("patchesStrategicMerge", Text::read)?;
    Ok(if texts.is_empty() { Vec::new() } else { vec![strategic_merges(texts)] })
}

fn read_strategic_config(config: &mut ConfigObject<'_>) -> Result<Transformation> {
    let mut texts = config.fields.list("paths", Text::read)?;
    texts.extend(config.fields.one("patches", Text::read)?);
    Ok(strategic_merges(texts))
}

fn strategic_merges(texts: Vec<Text>) -> Transformation {
    Box::new(move |pass| texts.iter().try_for_each(|text| apply_strategic_merge(pass, text)))
}

fn apply_patch(pass: &mut Pass<'_, '_>, patch: &Patch) -> Result<()> {
    let Some((text, source)) = patch.text(pass)? else { return Ok(()) };
    let content = source.read(&text)?;
    application(pass.build, patch).apply(&mut pass.accumulator.resmap, patch.target.as_ref(), content)
}

fn apply_json_patch(pass: &mut Pass<'_, '_>, patch: &Patch) -> Result<()> {
    let Some(target) = &patch.target else {
        let error = RenderError::at(Reason::InvalidValue, &patch.location, "a JSON patch needs a target");
        return Err(Box::new(error.field(patch.field.clone())));
    };
    let Some((text, source)) = patch.text(pass)? else { return Ok(()) };
    let operations = read_json(&text, &source)?;
    application(pass.build, patch).apply_json(&mut pass.accumulator.resmap, target, &operations)
}

fn application<'a>(build: &'a Build<'_>, patch: &'a Patch) -> Application<'a> {
    let (schemas, budget) = (&build.schemas, &build.source.budget);
    Application { options: patch.options, schemas, location: &patch.location, field: &patch.field, budget }
}

/// Applies an entry of `patchesStrategicMerge`, which is an inline patch or a file.
fn apply_strategic_merge(pass: &mut Pass<'_, '_>, text: &Text) -> Result<()> {
    let inline = documents(text.text.as_bytes())
        .ok()
        .filter(|nodes| !nodes.is_empty() && nodes.iter().all(|node| node.as_map().is_some()));
    let patches = match inline {
        Some(nodes) => objects_of(nodes, &text.location.file).map_err(|mut error| {
            error.line = Some(text.location.line);
            error
        })?,
        None => {
            let (file, bytes) =
                pass.build.source.read(pass.dir, &text.text).map_err(|error| at(text, error))?;
            pass.build.read_objects(&file, &bytes)?
        }
    };
    if patches.is_empty() {
        let error = RenderError::at(Reason::Patch, &text.location, "the patch is empty");
        return Err(Box::new(error.field(text.field.clone())));
    }
    let application = Application {
        options: PatchOptions::default(),
        schemas: &pass.build.schemas,
        location: &text.location,
        field: &text.field,
        budget: &pass.build.source.budget,
    };
    patches.into_iter().try_for_each(|patch| application.merge_named(&mut pass.accumulator.resmap, patch))
}
