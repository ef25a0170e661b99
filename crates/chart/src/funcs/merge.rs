//! `merge` and related functions, for which Sprig uses `dario.cat/mergo`: the first map gets the fields of the
//! others.

use super::{Call, Function, Outcome, Type};
use crate::value::{Map, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("merge", &[Type::Map], |call| merge(call, false)).rest(Type::Map),
    Function::new("mustMerge", &[Type::Map], |call| merge(call, false)).rest(Type::Map),
    Function::new("mergeOverwrite", &[Type::Map], |call| merge(call, true)).rest(Type::Map),
    Function::new("mustMergeOverwrite", &[Type::Map], |call| merge(call, true)).rest(Type::Map),
];

/// Maximum depth of merged maps. Merging maps that contain themselves would never end.
const MAX_DEPTH: usize = 200;

fn merge(call: Call<'_>, overwrite: bool) -> Outcome {
    let Some(target) = call.map(0) else { return Ok(call.arg(0).clone()) };
    for source in call.from(1).iter().filter_map(Value::as_map) {
        merge_into(call, target, source, (overwrite, 0))?;
    }
    Ok(call.arg(0).clone())
}

fn merge_into(
    call: Call<'_>,
    target: &Map,
    source: &Map,
    (overwrite, depth): (bool, usize),
) -> Result<(), crate::fault::Fault> {
    if target.same(source) {
        return Ok(());
    }
    if depth > MAX_DEPTH {
        return Err(format!("maps are nested more than {MAX_DEPTH} levels deep").into());
    }
    for (key, value) in source.snapshot() {
        call.env.budget.step()?;
        let known = target.get(&key);
        match (&known, &value) {
            (Some(_) | None, Value::Missing | Value::Nil) => {
                if overwrite {
                    target.insert(&key, value);
                }
            }
            (Some(Value::Map(inner)), Value::Map(value)) if inner.borrow().is_empty() && !overwrite => {
                // An empty map is replaced by the source's map, which both then share.
                target.insert(&key, Value::Map(value.clone()));
            }
            (Some(Value::Map(inner)), Value::Map(value)) => {
                merge_into(call, inner, value, (overwrite, depth + 1))?;
            }
            (Some(known), _) if known.truth() && !overwrite => {}
            _ => target.insert(&key, value),
        }
    }
    Ok(())
}
