//! `namePrefix`, `nameSuffix`, and the hash suffixes of generated objects.

use crate::budget::MemoryBudget;
use crate::config::is_selected;
use crate::config_object::ConfigObject;
use crate::decode::{Fields, Result};
use crate::error::{Reason, RenderError};
use crate::fieldspec::{Create, set_scalar, visit};
use crate::kustomization::FieldSpec;
use crate::resource::Resource;
use crate::transform::hash::name_hash;
use crate::transform::transformer::{Pass, Transformation, Transformer, no_fields};
use object::Gvk;
use yaml::{Node, Tag};

/// Adds a prefix to names.
pub(super) const PREFIX: Transformer = Transformer {
    kind: "PrefixTransformer",
    read_fields: |fields| read_field(fields, "namePrefix", End::Prefix),
    read_config,
};

/// Adds a suffix to names.
pub(super) const SUFFIX: Transformer = Transformer {
    kind: "SuffixTransformer",
    read_fields: |fields| read_field(fields, "nameSuffix", End::Suffix),
    read_config,
};

/// Adds prefixes and suffixes to names. Kustomizations have no field for it.
pub(super) const PREFIX_SUFFIX: Transformer =
    Transformer { kind: "PrefixSuffixTransformer", read_fields: no_fields, read_config };

/// Appends content hashes to the names of generated objects. Kustomizations have no field for it.
pub(super) const HASH: Transformer = Transformer {
    kind: "HashTransformer",
    read_fields: no_fields,
    read_config: |_| Ok(Box::new(|pass: &mut Pass<'_, '_>| add_hashes(&mut pass.accumulator.resmap))),
};

fn read_field(fields: &mut Fields<'_>, field: &'static str, end: End) -> Result<Vec<Transformation>> {
    let affix = Affix { text: fields.string(field)?, end };
    if affix.text.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![Box::new(move |pass| {
        let specs = match end {
            End::Prefix => &pass.config.name_prefix,
            End::Suffix => &pass.config.name_suffix,
        };
        apply(&mut pass.accumulator.resmap, &affix, specs, &pass.build.source.budget)
    })])
}

fn read_config(config: &mut ConfigObject<'_>) -> Result<Transformation> {
    let affixes = [
        Affix { text: config.fields.string("prefix")?, end: End::Prefix },
        Affix { text: config.fields.string("suffix")?, end: End::Suffix },
    ];
    let specs = config.field_specs()?;
    Ok(Box::new(move |pass| {
        for affix in affixes.iter().filter(|affix| !affix.text.is_empty()) {
            apply(&mut pass.accumulator.resmap, affix, &specs, &pass.build.source.budget)?;
        }
        Ok(())
    }))
}

/// A prefix or suffix.
struct Affix {
    text: String,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Prefix,
    Suffix,
}

/// Returns true if objects of a kind keep their names because the API server assigns meaning to them.
fn keeps_its_name(gvk: &Gvk) -> bool {
    matches!(gvk.kind.as_str(), "CustomResourceDefinition" | "Namespace")
        || (gvk.kind == "APIService" && gvk.group == "apiregistration.k8s.io")
}

/// Adds a prefix or suffix to the names of all objects.
///
/// # Errors
/// Fails if a name is not a string.
fn apply(
    resources: &mut [Resource],
    affix: &Affix,
    specs: &[FieldSpec],
    budget: &MemoryBudget<'_>,
) -> Result<()> {
    let Affix { text, end } = affix;
    for resource in resources {
        let original = resource.original_id().gvk;
        if keeps_its_name(&original) {
            continue;
        }
        for spec in specs.iter().filter(|spec| is_selected(&original, &spec.gvk)) {
            if spec.path == "metadata/name" {
                match end {
                    End::Prefix => resource.prefixes.push(text.clone()),
                    End::Suffix => resource.suffixes.push(text.clone()),
                }
                resource.remember();
            }
            visit(resource, spec, Create::Scalar(Tag::Str), &mut |node: &mut Node| {
                budget.spend(node.text().len() + text.len())?;
                let name = match end {
                    End::Prefix => format!("{text}{}", node.text()),
                    End::Suffix => format!("{}{text}", node.text()),
                };
                set_scalar(node, &name, Tag::Unsettled)
            })?;
        }
    }
    Ok(())
}

/// Appends content hashes to the names of generated objects.
///
/// # Errors
/// Fails if a value of the content cannot be represented in JSON.
pub(crate) fn add_hashes(resources: &mut [Resource]) -> Result<()> {
    for resource in resources.iter_mut().filter(|resource| resource.needs_hash) {
        let hash = name_hash(&resource.node).map_err(|(line, reason)| {
            Box::new(RenderError::at(Reason::InvalidValue, &resource.location, reason.0).line(line))
        })?;
        resource.remember();
        let name = format!("{}-{hash}", resource.name());
        resource.set_name(&name);
    }
    Ok(())
}
