//! Selects the enabled subcharts and imports their values into their parents (Helm's `dependencies.go`).

use std::collections::BTreeSet;

use crate::error::Error;
use crate::load::{Chart, Dependency};
use crate::semver::{Version, satisfies};
use crate::value::{Fields, Map, Value};
use crate::values::{coalesce_values, merge_tables, merge_values, path_value, table};

/// Removes disabled subcharts, applies aliases, and imports values.
pub(crate) fn process(chart: &mut Chart, values: &Map) -> Result<(), Error> {
    enable(chart, values, "")?;
    import(chart)
}

/// Fails if `charts/` lacks dependencies of `Chart.yaml`, and names them.
pub(crate) fn check(chart: &Chart) -> Result<(), Error> {
    let has = |wanted: &Dependency| chart.dependencies.iter().any(|found| found.name() == wanted.name);
    let missing: Vec<&str> = chart
        .metadata
        .dependencies
        .iter()
        .flatten()
        .filter(|wanted| !has(wanted))
        .map(|wanted| wanted.name.as_str())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let text = format!(
        "an error occurred while checking for chart dependencies. You may need to run `helm dependency build` to \
         fetch missing dependencies: found in Chart.yaml, but missing in charts/ directory: {}",
        missing.join(", ")
    );
    Err(Error::new(text).hint("commit the dependencies to charts/; nothing is downloaded"))
}

fn is_compatible(constraint: &str, version: &str) -> bool {
    Version::parse(version).is_ok_and(|version| satisfies(constraint, &version).unwrap_or(false))
}

fn fits(chart: &Chart, wanted: &Dependency) -> bool {
    chart.name() == wanted.name && is_compatible(&wanted.version, &chart.metadata.version)
}

fn enable(chart: &mut Chart, values: &Map, path: &str) -> Result<(), Error> {
    let Some(mut wanted) = chart.metadata.dependencies.clone() else { return Ok(()) };
    let present = std::mem::take(&mut chart.dependencies);
    // Charts that `Chart.yaml` does not list are included unchanged.
    let unnamed = present.iter().filter(|found| !wanted.iter().any(|wanted| fits(found, wanted)));
    let mut dependencies: Vec<Chart> = unnamed.cloned().collect();
    for wanted in &mut wanted {
        if let Some(found) = present.iter().find(|found| fits(found, wanted)) {
            let mut found = found.clone();
            if !wanted.alias.is_empty() {
                found.metadata.name.clone_from(&wanted.alias);
            }
            dependencies.push(found);
        }
        if !wanted.alias.is_empty() {
            wanted.name.clone_from(&wanted.alias);
        }
        wanted.enabled = true;
    }
    chart.dependencies = dependencies;
    chart.metadata.dependencies = Some(wanted);
    let coalesced = coalesce_values(chart, values)?;
    let mut wanted = chart.metadata.dependencies.take().unwrap_or_default();
    for wanted in &mut wanted {
        by_tags(wanted, &coalesced);
        by_condition(wanted, &coalesced, path);
    }
    let disabled: BTreeSet<String> =
        wanted.iter().filter(|wanted| !wanted.enabled).map(|wanted| wanted.name.clone()).collect();
    chart.dependencies.retain(|found| !disabled.contains(found.name()));
    wanted.retain(|wanted| !disabled.contains(&wanted.name));
    for subchart in &mut chart.dependencies {
        let path = format!("{path}{}.", subchart.name());
        enable(subchart, &coalesced, &path)?;
    }
    chart.metadata.dependencies = (!wanted.is_empty()).then_some(wanted);
    Ok(())
}

fn by_tags(wanted: &mut Dependency, values: &Map) {
    let Some(tags) = table(values, "tags") else { return };
    let flag = |tag: &String| match tags.get(tag) {
        Some(Value::Bool(flag)) => Some(flag),
        _ => None,
    };
    let flags: Vec<bool> = wanted.tags.iter().filter_map(flag).collect();
    wanted.enabled = flags.is_empty() || flags.contains(&true);
}

fn by_condition(wanted: &mut Dependency, values: &Map, path: &str) {
    for condition in wanted.condition.trim().split(',').filter(|condition| !condition.is_empty()) {
        if let Some(Value::Bool(flag)) = path_value(values, &format!("{path}{condition}")) {
            wanted.enabled = flag;
            return;
        }
    }
}

fn import(chart: &mut Chart) -> Result<(), Error> {
    for subchart in &mut chart.dependencies {
        import(subchart)?;
    }
    let Some(wanted) = chart.metadata.dependencies.clone() else { return Ok(()) };
    let values = merge_values(chart, &Map::new(Fields::new()))?;
    let imported = Map::new(Fields::new());
    for wanted in &wanted {
        for import in &wanted.import_values {
            let (child, parent) = match import {
                Value::Str(name) => (format!("exports.{name}"), ".".to_owned()),
                Value::Map(map) => {
                    let field =
                        |key: &str| map.get(key).map(|value| crate::print::text(&value)).unwrap_or_default();
                    (field("child"), field("parent"))
                }
                _ => continue,
            };
            if let Some(found) = table(&values, &format!("{}.{child}", wanted.name)) {
                merge_tables(&imported, &below(&parent, found));
            }
        }
    }
    let Value::Map(values) = Value::Map(values).deep_copy() else { return Ok(()) };
    merge_tables(&values, &imported);
    chart.values = values;
    Ok(())
}

/// Nests a map under a path.
fn below(path: &str, map: Map) -> Map {
    if path == "." {
        return map;
    }
    path.rsplit('.').fold(map, |map, key| [(key, Value::Map(map))].into_iter().collect())
}
