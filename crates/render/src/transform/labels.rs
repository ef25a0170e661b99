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
    // Like kustomize, the transformer runs for `commonLabels` even if there are none, and annotations record
    // that.
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

/// Labels, and where they go.
#[derive(Clone, Debug, Default)]
struct Label {
    /// The labels.
    pairs: BTreeMap<String, String>,
    /// Also into selectors and templates.
    include_selectors: bool,
    /// Also into templates.
    include_templates: bool,
    /// Also into these fields.
    fields: Vec<FieldSpec>,
    /// Its place.
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

/// Returns the fields that the labels of a `labels` entry go to.
///
/// # Errors
/// The entry and the configuration disagree on whether a field is created. The error knows no file yet.
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

/// Adds labels, or annotations, to the fields of all objects.
///
/// # Errors
/// A field on the way is not a map.
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

/// Adds labels to a field. As in kustomize, the new fields of an object share their values: a later change of
/// one changes all.
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
