//! Tests of whole renderings.

mod budget;
mod charts;
mod micro;

use crate::error::Error;
use crate::load::Tree;
use crate::render::{Rendered, Request, render};

/// Renders a chart of these files with values.
fn chart(files: &[(&str, &str)], values: &str) -> Result<Rendered, Error> {
    let tree: Tree =
        files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect();
    render(&Request {
        files: &tree,
        values: &[values.to_owned()],
        set: &[],
        release: "rel",
        namespace: "ns",
        kube_version: "1.36.0",
        api_versions: &[],
        include_crds: true,
        seed: [7; 32],
        now: jiff::Timestamp::UNIX_EPOCH,
    })
}

/// Renders a chart with one template.
fn template(text: &str) -> Result<String, Error> {
    let chart = chart(
        &[("Chart.yaml", "{name: c, version: 0.1.0, apiVersion: v2}"), ("templates/t.yaml", text)],
        "",
    )?;
    Ok(chart.manifests.into_iter().map(|document| document.text).collect())
}
