//! Merges the values of a release over the defaults of its charts (Helm's `coalesce.go`). A user's null removes a
//! default.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::error::Error;
use crate::load::Chart;
use crate::value::{Fields, Map, Value};

const GLOBAL: &str = "global";

/// The handling of nulls: they are kept while dependencies are processed, and removed from the final values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nulls {
    Kept,
    Removed,
}

/// Returns the values merged with the defaults of a chart and its subcharts. Removes nulls that removed a default.
pub(crate) fn coalesce_values(chart: &Chart, values: &Map) -> Result<Map, Error> {
    let copy = copied(values);
    coalesce(chart, &copy, Nulls::Removed)?;
    Ok(copy)
}

/// Returns the values merged with the defaults, and keeps nulls.
pub(crate) fn merge_values(chart: &Chart, values: &Map) -> Result<Map, Error> {
    let copy = copied(values);
    coalesce(chart, &copy, Nulls::Kept)?;
    Ok(copy)
}

/// Adds missing values from another map, and keeps nulls.
pub(crate) fn merge_tables(target: &Map, source: &Map) {
    fill(target, source, Nulls::Kept);
}

fn copied(map: &Map) -> Map {
    match Value::Map(map.clone()).deep_copy() {
        Value::Map(copy) => copy,
        _ => Map::new(Fields::new()),
    }
}

fn coalesce(chart: &Chart, target: &Map, nulls: Nulls) -> Result<(), Error> {
    defaults(chart, target, nulls);
    for subchart in &chart.dependencies {
        let name = subchart.name();
        let inner = match target.get(name) {
            None => {
                let inner = Map::new(Fields::new());
                target.insert(name, Value::Map(inner.clone()));
                inner
            }
            Some(Value::Map(inner)) => inner,
            Some(_) => {
                return Err(Error::new(format!("type mismatch on {name}"))
                    .hint(format!("the values of the subchart {name} have to be a map")));
            }
        };
        globals(&inner, target);
        coalesce(subchart, &inner, nulls)?;
    }
    Ok(())
}

/// Copies the global values of a chart to a subchart.
fn globals(target: &Map, source: &Map) {
    let own = match target.get(GLOBAL) {
        None => Map::new(Fields::new()),
        Some(Value::Map(map)) => map,
        Some(_) => return,
    };
    let given = match source.get(GLOBAL) {
        None => Map::new(Fields::new()),
        Some(Value::Map(map)) => map,
        Some(_) => return,
    };
    for (key, value) in given.snapshot() {
        match (own.get(&key), &value) {
            (None, Value::Map(value)) => own.insert(&key, Value::Map(Map::new(value.borrow().clone()))),
            (Some(Value::Map(below)), Value::Map(value)) => {
                let above = Map::new(value.borrow().clone());
                fill(&above, &below, Nulls::Kept);
                own.insert(&key, Value::Map(above));
            }
            (Some(_), Value::Map(_)) | (Some(Value::Map(_)), _) => {}
            _ => own.insert(&key, value),
        }
    }
    target.insert(GLOBAL, Value::Map(own));
}

fn defaults(chart: &Chart, target: &Map, nulls: Nulls) {
    for (key, default) in copied(&chart.values).snapshot() {
        match (target.get(&key), default) {
            (None, default) => {
                if let Some(default) = filtered(default, nulls) {
                    target.insert(&key, default);
                }
            }
            (Some(Value::Missing | Value::Nil), _) if nulls == Nulls::Removed => {
                target.borrow_mut().remove(&key);
            }
            (Some(Value::Map(given)), Value::Map(default)) => {
                let of_subchart = chart.dependencies.iter().any(|subchart| subchart.name() == &*key);
                fill(&given, &default, if of_subchart { Nulls::Kept } else { nulls });
            }
            _ => {}
        }
    }
}

/// Returns a default, without nulls if they are removed.
fn filtered(default: Value, nulls: Nulls) -> Option<Value> {
    match default {
        value if nulls == Nulls::Kept => Some(value),
        Value::Missing | Value::Nil => None,
        Value::Map(map) => {
            let fields = map.snapshot().into_iter();
            let fields = fields.filter_map(|(key, value)| Some((key, filtered(value, nulls)?)));
            Some(Value::Map(fields.collect::<Map>()))
        }
        value => Some(value),
    }
}

fn fill(target: &Map, source: &Map, nulls: Nulls) {
    if target.same(source) {
        return;
    }
    let source_fields = source.snapshot();
    let written: BTreeSet<Rc<str>> =
        source_fields.iter().filter(|(_, value)| !value.is_nil()).map(|(key, _)| key.clone()).collect();
    for (key, value) in target.snapshot() {
        if value.is_nil() {
            source.insert(&key, Value::Nil);
        }
    }
    for (key, value) in source.snapshot() {
        match target.get(&key) {
            Some(given) if nulls == Nulls::Removed && given.is_nil() && written.contains(&key) => {
                target.borrow_mut().remove(&key);
            }
            None => {
                if let Some(value) = filtered(value, nulls) {
                    target.insert(&key, value);
                }
            }
            Some(Value::Map(given)) => {
                if let Value::Map(default) = value {
                    fill(&given, &default, nulls);
                }
            }
            Some(_) => {}
        }
    }
}
