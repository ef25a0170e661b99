//! Tests of whole renderings.

mod budget;
mod charts;
mod fresh;
mod keys;
mod micro;
mod packed;
mod schema;

use crate::budget::Work;
use crate::error::Error;
use crate::load::Tree;
use crate::random::Fresh;
use crate::render::{Hooks, Rendered, Request, Values, render};

const CHART: &str = "{name: c, version: 0.1.0, apiVersion: v2}";

/// Returns a request for tests to modify.
fn request(files: &Tree) -> Request<'_> {
    Request {
        files,
        is_packed: false,
        values: &[],
        set: &[],
        release: "rel",
        namespace: "ns",
        kube_version: "1.36.0",
        api_versions: &[],
        include_crds: true,
        hooks: Hooks::All,
        fresh: Some(Fresh { seed: [7; 32], now: jiff::Timestamp::UNIX_EPOCH }),
        limits: Work::MAX,
    }
}

/// Renders a chart with these files and values.
fn chart(files: &[(&str, &str)], values: &str) -> Result<Rendered, Error> {
    let tree: Tree = files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().into())).collect();
    let values = [Values { file: "values".into(), text: values.to_owned() }];
    render(&Request { values: &values, ..request(&tree) })
}

/// Renders a chart with one template.
fn template(text: &str) -> Result<String, Error> {
    let chart = chart(&[("Chart.yaml", CHART), ("templates/t.yaml", text)], "")?;
    Ok(chart.manifests.into_iter().map(|document| document.text).collect())
}
