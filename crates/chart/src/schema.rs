//! `values.schema.json`. Schemas are not checked yet, so that the caller can say so.

use crate::load::{Chart, full_path};

/// Returns the paths of the schemas of a chart and its subcharts.
pub(crate) fn unchecked(chart: &Chart, parent: &str, paths: &mut Vec<String>) {
    let path = full_path(parent, chart.name());
    if chart.has_schema {
        paths.push(format!("{path}/values.schema.json"));
    }
    for dependency in &chart.dependencies {
        unchecked(dependency, &path, paths);
    }
}
