//! Works as trees, by cluster.

use std::collections::BTreeMap;

use super::shown::condition;
use crate::cli::CommandError;
use crate::cli::tree::Tree;
use api::condition::Conditions as _;
use api::names::work_conditions::{APPLIED, AVAILABLE};
use api::work::v1::{ManifestCondition, ManifestWork};
use object::Metadata as _;

pub(super) async fn works(_: &kube::Client, works: &[ManifestWork]) -> Result<Vec<Tree>, CommandError> {
    let mut clusters: BTreeMap<&str, Vec<Tree>> = BTreeMap::new();
    for work in works {
        clusters.entry(work.namespace()).or_default().push(self::work(work));
    }
    Ok(clusters.into_iter().map(|(cluster, works)| Tree::new(cluster).with(works)).collect())
}

fn work(work: &ManifestWork) -> Tree {
    let status = work.status.clone().unwrap_or_default();
    let manifests = &work.spec.workload.manifests;
    let mut fields = vec![
        Tree::field("Manifests", &manifests.len().to_string()),
        condition("Applied", work.conditions(), APPLIED, true),
        condition("Available", work.conditions(), AVAILABLE, true),
    ];
    if work
        .conditions()
        .iter()
        .any(|c| c.observed_generation.is_some() && c.observed_generation != work.metadata.generation)
    {
        fields.push(Tree::new("the conditions are those of an earlier spec; the agent has not answered yet"));
    }
    fields.push(Tree::new("Resources").with(status.resource_status.manifests.iter().map(resource)));
    Tree::new(work.name()).with(fields)
}

fn resource(manifest: &ManifestCondition) -> Tree {
    let meta = &manifest.resource_meta;
    let kind = if meta.resource.is_empty() { &meta.kind } else { &meta.resource };
    let name = match meta.namespace.as_str() {
        "" => format!("{kind} {}", meta.name),
        namespace => format!("{kind} {namespace}/{}", meta.name),
    };
    condition(&name, &manifest.conditions, APPLIED, true)
}
