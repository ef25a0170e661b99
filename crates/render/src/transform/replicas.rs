//! `replicas`.

use crate::config::is_selected;
use crate::decode::Result;
use crate::error::{Reason, RenderError, did_you_mean};
use crate::fieldspec::{Create, set_scalar, visit};
use crate::kustomization::{FieldSpec, Replica};
use crate::resource::Resource;
use crate::yaml::Tag;

/// Sets the number of replicas of the objects that have, or had, a name.
///
/// # Errors
/// Where there is no such object.
pub(crate) fn apply(resources: &mut [Resource], replica: &Replica, specs: &[FieldSpec]) -> Result<()> {
    let mut found = false;
    for spec in specs {
        for resource in resources.iter_mut() {
            if resource.all_ids().any(|id| id.name == replica.name && is_selected(&id.gvk, &spec.gvk)) {
                found = true;
                let count = replica.count.to_string();
                visit(resource, spec, Create::Scalar(Tag::Int), &mut |node| {
                    set_scalar(node, &count, Tag::Int)
                })?;
            }
        }
    }
    if found {
        return Ok(());
    }
    let kinds: Vec<&str> = specs.iter().map(|spec| spec.gvk.kind.as_str()).collect();
    let names = resources.iter().filter(|resource| kinds.contains(&resource.kind())).map(Resource::name);
    let message = format!("there is no {} {:?}", kinds.join(", "), replica.name);
    let error = RenderError::at(Reason::Target, &replica.place, message).field(replica.field.clone());
    Err(Box::new(error.hint_maybe(did_you_mean(&replica.name, names))))
}
