//! `wheelwright work`.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::cli::connect::HubArgs;
use crate::cli::installation::namespace;
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;
use crate::cli::writer::{WriteArgs, find, get, list, must_exist};
use crate::cli::{CommandError, CommandResult, objects};
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::Placement;
use api::work::v1::{ManifestWork, ManifestWorkSpec, ManifestsTemplate};
use api::work::v1alpha1::{LocalPlacementReference, ManifestWorkReplicaSet, ManifestWorkReplicaSetSpec};
use object::builtin_lists::BUILTIN;
use object::{Key, Object};

/// The largest input to read: four times the API server's limit for an object.
const MAX_INPUT: u64 = 6 << 20;

/// Send manifests to clusters.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Create(Create),
    /// Print the RBAC rules that the agent of a cluster needs for its works, as values of its chart.
    Rules(Rules),
}

#[derive(Debug, clap::Args)]
struct Rules {
    /// Name of the cluster.
    #[arg(long, value_name = "NAME")]
    cluster: String,
    #[command(flatten)]
    hub: HubArgs,
}

/// Create a work on each of the named clusters, or a ManifestWorkReplicaSet for the clusters of a placement.
///
/// With `--dry-run -o yaml` the objects are printed for a repository.
#[derive(Debug, clap::Args)]
pub(super) struct Create {
    /// Name of the work or of the ManifestWorkReplicaSet.
    name: String,
    /// File with the manifests, as YAML documents or JSON. `-` reads standard input.
    #[arg(short, long, value_name = "FILE")]
    filename: PathBuf,
    /// Namespace of the manifests that have none and whose kind has namespaces, as with `kubectl apply`.
    #[arg(short, long, value_name = "NAMESPACE", value_parser = namespace)]
    namespace: Option<String>,
    /// Names of the clusters, separated by commas.
    #[arg(long, value_name = "NAME", value_delimiter = ',', required_unless_present = "placement")]
    clusters: Vec<String>,
    /// Placement, as NAMESPACE/NAME. A ManifestWorkReplicaSet in its namespace follows its decisions.
    #[arg(long, value_name = "NAMESPACE/NAME", conflicts_with = "clusters")]
    placement: Option<String>,
    /// Change existing works, or an existing set, with this name.
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    write: WriteArgs,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    match &args.verb {
        Verb::Create(args) => create(args, ui),
        Verb::Rules(args) => block_on(rules(args, ui)),
    }
}

pub(super) fn create(args: &Create, ui: &mut Ui) -> CommandResult {
    let mut objects = manifests(&args.filename)?;
    if let Some(namespace) = &args.namespace {
        objects.iter_mut().for_each(|object| place(object, namespace));
    }
    let manifests = objects.into_iter().map(|object| object.0).collect();
    let spec = ManifestWorkSpec {
        workload: ManifestsTemplate { manifests, ..Default::default() },
        ..ManifestWorkSpec::default()
    };
    block_on(async {
        match &args.placement {
            Some(placement) => create_set(args, placement, spec, ui).await,
            None => create_works(args, spec, ui).await,
        }
    })
}

/// Sets the namespace of an object that has none. A kind that is not built in counts as namespaced.
fn place(object: &mut Object, namespace: &str) {
    let is_placed = !object.namespace().is_empty()
        || BUILTIN.is_namespaced(&object.gvk().api_version(), object.kind()) == Some(false);
    if !is_placed {
        object.metadata_mut().insert("namespace".into(), namespace.into());
    }
}

/// Reads the manifests, and expands Lists to their items.
fn manifests(file: &Path) -> Result<Vec<Object>, CommandError> {
    let is_stdin = file.as_os_str() == "-";
    let name = if is_stdin { "standard input".into() } else { file.to_string_lossy() };
    let mut text = String::new();
    let read = if is_stdin {
        std::io::stdin().take(MAX_INPUT).read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(MAX_INPUT).read_to_string(&mut text))
    };
    read.with_context(|| format!("cannot read {name}"))?;
    parse(&text).map_err(|error| {
        let hint = "each document is an object with apiVersion, kind and metadata.name";
        CommandError::hinted(error.context(format!("cannot read {name}")), hint)
    })
}

fn parse(text: &str) -> anyhow::Result<Vec<Object>> {
    let manifests = objects::of_text(text)?;
    if manifests.is_empty() {
        return Err(anyhow!("there are no manifests"));
    }
    match manifests.iter().any(|object| object.name().is_empty() || object.kind().is_empty()) {
        true => Err(anyhow!("an object has no kind or no name")),
        false => Ok(manifests),
    }
}

fn exists(what: String) -> CommandError {
    CommandError::hinted(anyhow!("{what} already exists"), "change it with --overwrite")
}

async fn create_works(args: &Create, spec: ManifestWorkSpec, ui: &mut Ui) -> CommandResult {
    let mut writer = args.write.connect().await?;
    must_exist::<ManagedCluster>(writer.client(), &args.clusters, "wheelwright get clusters").await?;
    for cluster in &args.clusters {
        let name = &args.name;
        let is_there =
            find::<ManifestWork>(writer.client(), &Key::namespaced(cluster, name)).await?.is_some();
        if is_there && !args.overwrite {
            return Err(exists(format!("work {name} in cluster {cluster}")));
        }
        let metadata = ObjectMeta {
            namespace: Some(cluster.clone()),
            name: Some(name.clone()),
            ..ObjectMeta::default()
        };
        let work = ManifestWork { metadata, spec: spec.clone(), ..ManifestWork::default() };
        writer.apply(&work).await?;
        writer.add_line(format!(
            "{} work {name} in cluster {cluster}",
            if is_there { "update" } else { "create" }
        ));
    }
    writer.finish(ui)
}

async fn create_set(args: &Create, placement: &str, spec: ManifestWorkSpec, ui: &mut Ui) -> CommandResult {
    let Some((namespace, placement)) = placement.split_once('/') else {
        let error = anyhow!("--placement {placement} has no namespace");
        return Err(CommandError::hinted(error, "write it as NAMESPACE/NAME"));
    };
    let mut writer = args.write.connect().await?;
    get::<Placement>(writer.client(), &Key::namespaced(namespace, placement), "wheelwright get placements")
        .await?;
    let name = &args.name;
    let key = Key::namespaced(namespace, name);
    let is_there = find::<ManifestWorkReplicaSet>(writer.client(), &key).await?.is_some();
    if is_there && !args.overwrite {
        return Err(exists(format!("manifestworkreplicaset {name} in namespace {namespace}")));
    }
    let metadata =
        ObjectMeta { namespace: Some(key.namespace), name: Some(key.name), ..ObjectMeta::default() };
    let reference = LocalPlacementReference { name: placement.into(), ..Default::default() };
    let spec = ManifestWorkReplicaSetSpec {
        manifest_work_template: spec,
        placement_refs: vec![reference],
        ..ManifestWorkReplicaSetSpec::default()
    };
    writer.apply(&ManifestWorkReplicaSet { metadata, spec, ..ManifestWorkReplicaSet::default() }).await?;
    let verb = if is_there { "update" } else { "create" };
    writer.add_line(format!("{verb} manifestworkreplicaset {name} in namespace {namespace}"));
    writer.finish(ui)
}

/// Prints the RBAC rules for the works of a cluster, and for the credentials of its registered add-ons.
async fn rules(args: &Rules, ui: &mut Ui) -> CommandResult {
    let hub = args.hub.connect().await?;
    let Rules { cluster, .. } = args;
    get::<ManagedCluster>(&hub, &Key::cluster(cluster.as_str()), "wheelwright get clusters").await?;
    let works = list::<ManifestWork>(&hub, cluster, "").await?;
    let addons = list::<ManagedClusterAddOn>(&hub, cluster, "").await?;
    let registers = |addon: &ManagedClusterAddOn| {
        addon.status.as_ref().is_some_and(|status| !status.registrations.is_empty())
    };
    let mut rules = engine::work::rules(&works);
    if addons.iter().any(registers) {
        rules.push(PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["secrets".into()]),
            verbs: ["get", "list", "create", "patch", "delete"].map(String::from).into(),
            ..PolicyRule::default()
        });
    }
    let values = serde_saphyr::to_string(&serde_json::json!({ "rules": rules }))
        .context("the rules cannot be written as YAML")?;
    ui.text(format!("# Values that the agent of cluster {cluster} needs for its works.\n{values}"))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_are_documents_or_a_list_and_each_has_a_name() {
        let one = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
        assert_eq!(parse(one).unwrap().len(), 1);
        assert_eq!(parse(&format!("{one}---\n{one}")).unwrap().len(), 2);
        let list = r#"{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}]}"#;
        assert_eq!(parse(list).unwrap().len(), 1);
        for wrong in ["", "kind: ConfigMap\n", "- a\n", "metadata: {name: a}\n"] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn only_an_object_of_a_kind_with_namespaces_that_has_none_is_placed() {
        for (object, expected) in [
            ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}", "shop"),
            ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}", "b"),
            ("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}", ""),
            ("apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}", "shop"),
        ] {
            let mut objects = parse(object).unwrap();
            place(&mut objects[0], "shop");
            assert_eq!(objects[0].namespace(), expected, "{object}");
        }
    }
}
