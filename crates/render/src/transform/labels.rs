//! `labels` and `commonLabels`.

use std::collections::BTreeMap;

use crate::config::{Config, merge_specs};
use crate::decode::Result;
use crate::error::{Reason, RenderError};
use crate::fieldspec::{Create, set_scalar, visit};
use crate::kustomization::{FieldSpec, Label};
use crate::resource::Resource;
use crate::yaml::{Node, Tag};

/// The fields that the labels of a `labels` entry go to.
///
/// # Errors
/// Where the entry and the configuration disagree on whether a field is made. The error knows no file yet.
pub(crate) fn fields_of(label: &Label, config: &Config) -> Result<Vec<FieldSpec>> {
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
/// Where something else than a map stands in the way.
pub(crate) fn apply(
    resources: &mut [Resource],
    pairs: &BTreeMap<String, String>,
    specs: &[FieldSpec],
) -> Result<()> {
    if pairs.is_empty() {
        return Ok(());
    }
    for resource in resources {
        let pairs: Vec<(&String, Node)> =
            pairs.iter().map(|(key, value)| (key, resource.share(value))).collect();
        for spec in specs {
            visit(resource, spec, Create::Map, &mut |node| add(node, &pairs))?;
        }
        resource.spread_shared();
    }
    Ok(())
}

/// The fields that are made here share their values: what changes one of them later on changes all, as in kustomize.
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
