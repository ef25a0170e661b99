//! The fields that transformers change: kustomize's defaults, and additions from `configurations` and `crds`.

use std::sync::{Arc, LazyLock};

use super::decode::{Located, Result};
use super::error::{Reason, RenderError};
use super::kustomization::{FieldSpec, SortOptions, take_gvk};
use object::Gvk;

/// The fields of all transformers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Config {
    /// Names that get a prefix.
    pub name_prefix: Vec<FieldSpec>,
    /// Names that get a suffix.
    pub name_suffix: Vec<FieldSpec>,
    /// Namespaces.
    pub namespace: Vec<FieldSpec>,
    /// Labels, including selectors.
    pub common_labels: Vec<FieldSpec>,
    /// Labels that every entry of `labels` changes.
    pub labels: Vec<FieldSpec>,
    /// Labels in templates.
    pub template_labels: Vec<FieldSpec>,
    /// Annotations.
    pub common_annotations: Vec<FieldSpec>,
    /// References to objects by name.
    pub name_reference: Vec<NameReference>,
    /// Fields in which variables are replaced.
    pub var_reference: Vec<FieldSpec>,
    /// Images.
    pub images: Vec<FieldSpec>,
    /// Numbers of replicas.
    pub replicas: Vec<FieldSpec>,
}

/// Fields that contain names of objects of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NameReference {
    /// The kind. Empty parts match any kind.
    pub gvk: Gvk,
    pub referrers: Vec<FieldSpec>,
}

/// The fields that kustomize knows by default.
pub(super) static DEFAULT: LazyLock<Arc<Config>> =
    LazyLock::new(|| Arc::new(parse(include_str!("defaults.txt")).sorted()));

fn parse(text: &str) -> Config {
    let mut config = Config::default();
    let mut list = "";
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        match (line.starts_with(' '), words.next()) {
            (false, Some("list")) => list = words.next().unwrap_or_default(),
            (false, Some("names")) => {
                list = "";
                config
                    .name_reference
                    .push(NameReference { gvk: words_spec(words).gvk, referrers: Vec::new() });
            }
            (true, Some(path)) => {
                let spec = FieldSpec { path: path.into(), ..words_spec(words) };
                if let Some(specs) = config.specs_mut(list) {
                    specs.push(spec);
                } else if let Some(names) = config.name_reference.last_mut() {
                    names.referrers.push(spec);
                }
            }
            (false, Some(_)) | (_, None) => {}
        }
    }
    config
}

fn words_spec<'a>(words: impl Iterator<Item = &'a str>) -> FieldSpec {
    let mut spec = FieldSpec::default();
    for word in words {
        match word.split_once('=') {
            Some(("group", value)) => spec.gvk.group = value.into(),
            Some(("version", value)) => spec.gvk.version = value.into(),
            Some(("kind", value)) => spec.gvk.kind = value.into(),
            Some(_) => {}
            None => spec.create |= word == "create",
        }
    }
    spec
}

impl Config {
    fn specs_mut(&mut self, name: &str) -> Option<&mut Vec<FieldSpec>> {
        match name {
            "namePrefix" => Some(&mut self.name_prefix),
            "nameSuffix" => Some(&mut self.name_suffix),
            "namespace" => Some(&mut self.namespace),
            "commonLabels" => Some(&mut self.common_labels),
            "labels" => Some(&mut self.labels),
            "templateLabels" => Some(&mut self.template_labels),
            "commonAnnotations" => Some(&mut self.common_annotations),
            "varReference" => Some(&mut self.var_reference),
            "images" => Some(&mut self.images),
            "replicas" => Some(&mut self.replicas),
            _ => None,
        }
    }

    const LISTS: [&'static str; 10] = [
        "namePrefix",
        "nameSuffix",
        "namespace",
        "commonLabels",
        "labels",
        "templateLabels",
        "commonAnnotations",
        "varReference",
        "images",
        "replicas",
    ];

    /// Reads a file from `configurations`.
    pub(super) fn read(located: &Located<'_>) -> Result<Self> {
        let mut config = Self::default();
        let mut fields = located.fields()?;
        for name in Self::LISTS {
            let specs = fields.list(name, FieldSpec::read)?;
            if let Some(slot) = config.specs_mut(name) {
                *slot = specs;
            }
        }
        config.name_reference = fields.list("nameReference", read_reference)?;
        fields.finish()?;
        Ok(config.sorted())
    }

    /// Adds the fields of another configuration.
    ///
    /// # Errors
    /// Fails if the two disagree on whether a field is created. The error has no file yet.
    pub(super) fn merge(mut self: Arc<Self>, other: &Arc<Self>) -> Result<Arc<Self>> {
        if Arc::ptr_eq(&self, other) || **other == Self::default() {
            return Ok(self);
        }
        if *self == Self::default() {
            return Ok(Arc::clone(other));
        }
        let merged = Arc::make_mut(&mut self);
        let mut theirs = (**other).clone();
        for name in Self::LISTS {
            if let (Some(mine), Some(theirs)) = (merged.specs_mut(name), theirs.specs_mut(name)) {
                merge_specs(mine, theirs)?;
            }
        }
        for reference in &other.name_reference {
            merged.add_reference(reference)?;
        }
        *merged = std::mem::take(merged).sorted();
        Ok(self)
    }

    /// Adds fields that contain names of objects of a kind.
    pub(super) fn add_reference(&mut self, reference: &NameReference) -> Result<()> {
        match self.name_reference.iter_mut().find(|mine| mine.gvk == reference.gvk) {
            Some(mine) => merge_specs(&mut mine.referrers, &reference.referrers),
            None => {
                self.name_reference.push(reference.clone());
                Ok(())
            }
        }
    }

    /// Sorts the fields into the order in which they are applied.
    fn sorted(mut self) -> Self {
        for name in Self::LISTS {
            if let Some(specs) = self.specs_mut(name) {
                specs.sort_by_cached_key(|spec| order(&spec.gvk));
            }
        }
        self.name_reference.sort_by_cached_key(|reference| order(&reference.gvk));
        self
    }
}

/// Sorts by the rank of the kind, then by name.
fn order(gvk: &Gvk) -> (isize, String) {
    let rank_in = |kinds: &[&str]| {
        kinds.iter().position(|kind| *kind == gvk.kind).and_then(|at| isize::try_from(at).ok())
    };
    let first = rank_in(&SortOptions::FIRST).map(|at| at - SortOptions::FIRST.len() as isize);
    let last = rank_in(&SortOptions::LAST).map(|at| at + 1);
    let or = |text: &str, none: &str| if text.is_empty() { none.to_owned() } else { text.to_owned() };
    let name = format!("{}_{}_{}", or(&gvk.group, "~G"), or(&gvk.version, "~V"), or(&gvk.kind, "~K"));
    (first.or(last).unwrap_or_default(), name)
}

fn read_reference(located: &Located<'_>) -> Result<NameReference> {
    let mut fields = located.fields()?;
    let reference =
        NameReference { gvk: take_gvk(&mut fields)?, referrers: fields.list("fieldSpecs", FieldSpec::read)? };
    fields.finish()?;
    Ok(reference)
}

/// Adds missing specifications.
pub(super) fn merge_specs(mine: &mut Vec<FieldSpec>, theirs: &[FieldSpec]) -> Result<()> {
    for spec in theirs {
        match mine.iter().find(|known| is_selected(&known.gvk, &spec.gvk) && known.path == spec.path) {
            Some(known) if known.create != spec.create => {
                let message = format!("{:?} is created by one configuration and not by another", spec.path);
                return Err(Box::new(RenderError::new(Reason::InvalidValue, "", message)));
            }
            Some(_) => {}
            None => mine.push(spec.clone()),
        }
    }
    Ok(())
}

/// Returns true if a selector matches a kind. Empty parts of a selector match any kind.
pub(super) fn is_selected(gvk: &Gvk, selector: &Gvk) -> bool {
    let fits = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
    fits(&selector.group, &gvk.group)
        && fits(&selector.version, &gvk.version)
        && fits(&selector.kind, &gvk.kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_complete() {
        let config = &**DEFAULT;
        assert_eq!(
            (config.name_prefix.len(), config.namespace.len(), config.replicas.len(), config.images.len()),
            (1, 3, 4, 6)
        );
        assert_eq!(config.name_reference.len(), 16);
        assert!(
            config
                .common_labels
                .iter()
                .any(|spec| spec.gvk.kind == "Service" && spec.path == "spec/selector" && spec.create)
        );
    }

    #[test]
    fn merging_with_itself_changes_nothing() {
        let other = Arc::new((**DEFAULT).clone());
        assert_eq!(DEFAULT.clone().merge(&other).unwrap(), *DEFAULT);
    }
}
