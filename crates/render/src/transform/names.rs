//! `namePrefix`, `nameSuffix` and the hashes of generated objects.

use crate::config::is_selected;
use crate::decode::Result;
use crate::error::{Reason, RenderError};
use crate::fieldspec::{Create, set_scalar, visit};
use crate::generate::name_hash;
use crate::kustomization::FieldSpec;
use crate::resource::Resource;
use crate::yaml::{Node, Tag};
use object::Gvk;

/// At which end of a name a text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// In front.
    Prefix,
    /// Behind.
    Suffix,
}

/// Kinds whose names mean something to others, and stay.
fn keeps_its_name(gvk: &Gvk) -> bool {
    matches!(gvk.kind.as_str(), "CustomResourceDefinition" | "Namespace")
        || (gvk.kind == "APIService" && gvk.group == "apiregistration.k8s.io")
}

/// Puts a text at one end of the names of all objects.
///
/// # Errors
/// Where something else than a text stands where a name should be.
pub(crate) fn apply(resources: &mut [Resource], text: &str, specs: &[FieldSpec], end: End) -> Result<()> {
    for resource in resources {
        let original = resource.original_id().gvk;
        if keeps_its_name(&original) {
            continue;
        }
        for spec in specs.iter().filter(|spec| is_selected(&original, &spec.gvk)) {
            if spec.path == "metadata/name" {
                match end {
                    End::Prefix => resource.prefixes.push(text.to_owned()),
                    End::Suffix => resource.suffixes.push(text.to_owned()),
                }
                resource.remember();
            }
            visit(resource, spec, Create::Scalar(Tag::Str), &mut |node: &mut Node| {
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

/// Puts the hash of the content behind the names of generated objects.
///
/// # Errors
/// Where a value of the content has no JSON.
pub(crate) fn add_hashes(resources: &mut [Resource]) -> Result<()> {
    for resource in resources.iter_mut().filter(|resource| resource.needs_hash) {
        let hash = name_hash(&resource.node).map_err(|(line, why)| {
            Box::new(RenderError::at(Reason::InvalidValue, &resource.place, why.0).line(line))
        })?;
        resource.remember();
        let name = format!("{}-{hash}", resource.name());
        resource.set_name(&name);
    }
    Ok(())
}
