//! `replicas`.

use crate::config::is_selected;
use crate::config_object::ConfigObject;
use crate::decode::{Fields, Located, Result};
use crate::error::{Reason, RenderError, did_you_mean};
use crate::fieldspec::{Create, set_scalar, visit};
use crate::kustomization::{FieldSpec, location_of};
use crate::resource::Resource;
use crate::transform::transformer::{Transformation, Transformer};
use object::Location;
use yaml::Tag;

/// Sets the number of replicas.
pub(super) const REPLICA_COUNT: Transformer =
    Transformer { kind: "ReplicaCountTransformer", read_fields, read_config };

fn read_fields(fields: &mut Fields<'_>) -> Result<Vec<Transformation>> {
    let transformation = |replica: Replica| -> Transformation {
        Box::new(move |pass| apply(&mut pass.accumulator.resmap, &replica, &pass.config.replicas))
    };
    Ok(fields.list("replicas", Replica::read)?.into_iter().map(transformation).collect())
}

fn read_config(config: &mut ConfigObject<'_>) -> Result<Transformation> {
    let replica = config.fields.one("replica", Replica::read)?.unwrap_or_default();
    let specs = config.field_specs()?;
    Ok(Box::new(move |pass| apply(&mut pass.accumulator.resmap, &replica, &specs)))
}

#[derive(Clone, Debug, Default)]
struct Replica {
    /// The current or an earlier name of the object.
    name: String,
    count: i64,
    location: Location,
    /// Its path in the file.
    field: String,
}

impl Replica {
    fn read(located: &Located<'_>) -> Result<Self> {
        let mut fields = located.fields()?;
        let count = fields.one("count", Located::integer)?.unwrap_or_default();
        let replica = Self {
            name: fields.string("name")?,
            count,
            location: location_of(located),
            field: located.field.clone(),
        };
        fields.finish()?;
        Ok(replica)
    }
}

/// Sets the number of replicas of the objects that have or had a name.
///
/// # Errors
/// Fails if no object has or had the name.
fn apply(resources: &mut [Resource], replica: &Replica, specs: &[FieldSpec]) -> Result<()> {
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
    let error = RenderError::at(Reason::Target, &replica.location, message).field(replica.field.clone());
    Err(Box::new(error.hint_maybe(did_you_mean(&replica.name, names))))
}
