//! Works as a table, or as trees per cluster.

use std::collections::BTreeMap;

use super::shown::{Rows, ShowOptions, condition, object_age, status};
use crate::cli::output::Ui;
use crate::cli::tree::Tree;
use crate::cli::writer;
use crate::cli::{CommandError, CommandResult};
use api::cluster::v1alpha1::ClusterClaim;
use api::condition::Conditions as _;
use api::names::SPOKE_ONLY_LABEL;
use api::names::work_conditions::{APPLIED, AVAILABLE};
use api::work::v1::{AppliedManifestWork, AppliedResource, ManifestCondition, ManifestWork};
use controllers::MESSAGE;
use controllers::agent_identity::{AgentIdentity, EVICTION_GRACE, eviction_grace};
use engine::work::error;
use jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::api::ListParams;
use object::Metadata as _;
use object::duration::later;
use object::text::plain;

// The namespace of a work is its cluster, so clusteradm's `--cluster` is an alias.
#[derive(Debug, clap::Args)]
#[command(mut_arg("namespace", |arg| arg
    .visible_alias("cluster")
    .visible_short_alias('c')
    .help("Cluster of the works, which is their namespace. `--cluster` is the same option. Default: all clusters")))]
pub(super) struct Args {
    /// Show the remains of works that no longer exist on the hub: their objects, since when the work is
    /// missing, and when the agent deletes them. Use the kubeconfig of the managed cluster.
    #[arg(long, conflicts_with = "namespace")]
    orphans: bool,
    #[command(flatten)]
    options: ShowOptions,
}

pub(super) async fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    if args.orphans {
        return args.options.show_where(ui, |applied| missing_since(applied).is_some(), orphans).await;
    }
    args.options.show(ui, rows, works).await
}

/// Returns the time since which the work has been missing on the hub.
fn missing_since(applied: &AppliedManifestWork) -> Option<Timestamp> {
    Some(applied.status.as_ref()?.eviction_start_time.as_ref()?.0)
}

async fn orphans(spoke: &kube::Client, orphans: &[AppliedManifestWork]) -> Result<Vec<Tree>, CommandError> {
    let claims: Api<ClusterClaim> = Api::all(spoke.clone());
    let claims = claims
        .list(&ListParams::default().labels(SPOKE_ONLY_LABEL))
        .await
        .map_err(writer::failed("list the ClusterClaims of agents".into()))?
        .items;
    let grace = |applied: &AppliedManifestWork| {
        let has = |claim: &&ClusterClaim| {
            AgentIdentity::parse(&claim.spec.value).is_some_and(|it| it.has(&applied.spec))
        };
        claims.iter().find(has).map_or(EVICTION_GRACE, eviction_grace)
    };
    Ok(orphans.iter().map(|applied| orphan(applied, grace(applied))).collect())
}

fn orphan(applied: &AppliedManifestWork, grace: SignedDuration) -> Tree {
    let since = missing_since(applied);
    let time = |at: Option<Timestamp>| at.map(|at| at.to_string()).unwrap_or_default();
    let resources = applied.status.iter().flat_map(|status| &status.applied_resources);
    Tree::new(applied.name()).with([
        Tree::field("Work", &applied.spec.manifest_work_name),
        Tree::field("MissingSince", &time(since)),
        // The agent deletes nothing as long as the hub has no works for the cluster.
        Tree::field("DeletedNotBefore", &time(since.map(|since| later(since, grace)))),
        Tree::new("Resources").with(resources.map(|resource| {
            let AppliedResource { resource, namespace, name, .. } = resource;
            Tree::new(named(resource, namespace, name))
        })),
    ])
}

async fn rows(_: &kube::Client, works: &[ManifestWork]) -> Result<Rows<7>, CommandError> {
    Ok(Rows {
        titles: ["CLUSTER", "NAME", "MANIFESTS", "APPLIED", "AVAILABLE", "AGE", "ERROR"],
        lines: works.iter().map(line).collect(),
    })
}

fn line(work: &ManifestWork) -> [String; 7] {
    [
        work.namespace().to_owned(),
        work.name().to_owned(),
        work.spec.workload.manifests.len().to_string(),
        status(work.conditions(), APPLIED),
        // As in OCM, the objects exist. The error says if they do not work.
        status(work.conditions(), AVAILABLE),
        object_age(work),
        error(work).map(|error| plain(&error, MESSAGE)).unwrap_or_default(),
    ]
}

async fn works(_: &kube::Client, works: &[ManifestWork]) -> Result<Vec<Tree>, CommandError> {
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
    fields.extend(error(work).map(|error| Tree::field("Error", &plain(&error, MESSAGE))));
    if work
        .conditions()
        .iter()
        .any(|c| c.observed_generation.is_some() && c.observed_generation != work.metadata.generation)
    {
        fields.push(Tree::new(
            "the conditions are for an earlier spec; the agent has not reported on the current one yet",
        ));
    }
    fields.push(Tree::new("Resources").with(status.resource_status.manifests.iter().map(resource)));
    Tree::new(work.name()).with(fields)
}

fn resource(manifest: &ManifestCondition) -> Tree {
    let meta = &manifest.resource_meta;
    let kind = if meta.resource.is_empty() { &meta.kind } else { &meta.resource };
    condition(&named(kind, &meta.namespace, &meta.name), &manifest.conditions, APPLIED, true)
}

fn named(kind: &str, namespace: &str, name: &str) -> String {
    match namespace {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_work_whose_pods_do_not_start_has_their_reason_as_its_error() {
        let condition = |type_: &str, status: &str, reason: &str, message: &str| {
            json!({"type": type_, "status": status, "reason": reason, "message": message, "observedGeneration": 1,
                "lastTransitionTime": "2026-01-02T03:04:05Z"})
        };
        let there = condition("Available", "True", "ResourcesAvailable", "");
        let meta = json!({"ordinal": 0, "kind": "Deployment", "namespace": "web", "name": "front"});
        let pods = condition("PodsReady", "False", "ErrImagePull", "web:9: not found");
        let status = json!({
            "conditions": [condition("Applied", "True", "AppliedManifestComplete", ""), there],
            "resourceStatus": {"manifests": [{"resourceMeta": meta, "conditions": [pods]}]},
        });
        let metadata = json!({"name": "w", "namespace": "c1", "generation": 1});
        let mut object = json!({"metadata": metadata, "spec": {"workload": {}}, "status": status});
        let read = |object: &serde_json::Value| serde_json::from_value(object.clone()).unwrap();
        let error = "Deployment front: ErrImagePull: web:9: not found";
        assert_eq!(line(&read(&object)), ["c1", "w", "0", "True", "True", "-", error]);
        let tree = work(&read(&object)).print();
        assert!(tree.contains("ErrImagePull: web:9: not found"), "{tree}");
        object["status"]["resourceStatus"] = json!({});
        assert_eq!(line(&read(&object)).last().unwrap(), "");
    }
}
