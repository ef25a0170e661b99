//! `labels`, `commonLabels` and `commonAnnotations`.

use std::collections::BTreeMap;

use crate::budget::MemoryBudget;
use crate::config::{Config, merge_specs};
use crate::config_object::ConfigObject;
use crate::decode::{Fields, Located, Result};
use crate::error::{Reason, RenderError};
use crate::fieldspec::{Create, set_scalar, visit};
use crate::kustomization::{FieldSpec, location_of};
use crate::resource::Resource;
use crate::transform::transformer::{Transformation, Transformer};
use object::Location;
use yaml::limits::VALUE_BYTES;
use yaml::{Node, Tag};

/// Adds labels.
pub(super) const LABEL: Transformer = Transformer {
    kind: "LabelTransformer",
    read_fields: read_labels,
    read_config: |config| read_config(config, "labels"),
};

/// Adds annotations.
pub(super) const ANNOTATIONS: Transformer = Transformer {
    kind: "AnnotationsTransformer",
    read_fields: read_annotations,
    read_config: |config| read_config(config, "annotations"),
};

fn read_labels(fields: &mut Fields<'_>) -> Result<Vec<Transformation>> {
    let (labels, common) = (fields.list("labels", Label::read)?, fields.string_map("commonLabels")?);
    if labels.is_empty() && common.is_empty() {
        return Ok(Vec::new());
    }
    let transformation = |label: Label| -> Transformation {
        Box::new(move |pass| {
            let specs = fields_of(&label, &pass.config).map_err(|mut error| {
                (error.file, error.line) = (label.location.file.clone(), Some(label.location.line));
                error
            })?;
            apply(&mut pass.accumulator.resmap, &label.pairs, &specs, &pass.build.source.budget)
        })
    };
    let mut transformations: Vec<Transformation> = labels.into_iter().map(transformation).collect();
    // Like kustomize, run the transformer even if `commonLabels` is empty, because annotations record it.
    transformations.push(Box::new(move |pass| {
        apply(&mut pass.accumulator.resmap, &common, &pass.config.common_labels, &pass.build.source.budget)
    }));
    Ok(transformations)
}

fn read_annotations(fields: &mut Fields<'_>) -> Result<Vec<Transformation>> {
    let annotations = fields.string_map("commonAnnotations")?;
    if annotations.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![Box::new(move |pass| {
        apply(
            &mut pass.accumulator.resmap,
            &annotations,
            &pass.config.common_annotations,
            &pass.build.source.budget,
        )
    })])
}

fn read_config(config: &mut ConfigObject<'_>, field: &'static str) -> Result<Transformation> {
    let pairs = config.fields.string_map(field)?;
    let specs = config.field_specs()?;
    Ok(Box::new(move |pass| apply(&mut pass.accumulator.resmap, &pairs, &specs, &pass.build.source.budget)))
}

/// Labels, and the fields that get them.
#[derive(Clone, Debug, Default)]
struct Label {
    pairs: BTreeMap<String, String>,
    /// If true, selectors and templates also get the labels.
    include_selectors: bool,
    /// If true, templates also get the labels.
    include_templates: bool,
    /// Additional fields.
    fields: Vec<FieldSpec>,
    location: Location,
}

impl Label {
    fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let label = Self {
            pairs: fields.string_map("pairs")?,
            include_selectors: fields.bool("includeSelectors")?,
            include_templates: fields.bool("includeTemplates")?,
            fields: fields.list("fields", FieldSpec::read)?,
            location: location_of(located),
        };
        fields.finish()?;
        Ok(label)
    }
}

/// Returns the fields that get the labels of a `labels` entry.
///
/// # Errors
/// Fails if the entry and the configuration disagree on whether a field is created. The error has no file yet.
fn fields_of(label: &Label, config: &Config) -> Result<Vec<FieldSpec>> {
    let mut specs = label.fields.clone();
    merge_specs(&mut specs, &config.labels)?;
    if label.include_selectors {
        merge_specs(&mut specs, &config.common_labels)?;
    } else {
        if label.include_templates {
            merge_specs(&mut specs, &config.template_labels)?;
        }
        let metadata = FieldSpec { path: "metadata/labels".into(), create: true, ..FieldSpec::default() };
        merge_specs(&mut specs, &[metadata])?;
    }
    Ok(specs)
}

/// Adds labels or annotations to the fields of all objects.
///
/// # Errors
/// Fails if a value on the path is not a map.
pub(crate) fn apply(
    resources: &mut [Resource],
    pairs: &BTreeMap<String, String>,
    specs: &[FieldSpec],
    budget: &MemoryBudget<'_>,
) -> Result<()> {
    if pairs.is_empty() {
        return Ok(());
    }
    let memory = pairs.iter().map(|(key, value)| key.len() + value.len() + VALUE_BYTES).sum();
    for resource in resources {
        budget.spend_at(&resource.location, memory)?;
        let pairs: Vec<(&String, Node)> =
            pairs.iter().map(|(key, value)| (key, resource.share(value))).collect();
        for spec in specs {
            visit(resource, spec, Create::Map, &mut |node| {
                budget.spend(memory)?;
                add(node, &pairs)
            })?;
        }
        resource.spread_shared();
    }
    Ok(())
}

/// Adds labels to a field. As in kustomize, the new fields of an object share their values: changing one later
/// changes all of them.
fn add(node: &mut Node, pairs: &[(&String, Node)]) -> Result<()> {
    let (line, kind) = (node.line, node.kind());
    if node.is_null() {
        return Ok(());
    }
    if node.as_map().is_none() {
        let message = format!("labels and annotations are a map, not {kind}");
        return Err(Box::new(RenderError::new(Reason::InvalidValue, "", message).line(line)));
    }
    for (key, value) in pairs {
        match node.get_mut(key) {
            Some(existing) if existing.as_scalar().is_some() => set_scalar(existing, value.text(), Tag::Str)?,
            Some(_) | None => node.set(key, value.clone()),
        }
    }
    Ok(())
}
