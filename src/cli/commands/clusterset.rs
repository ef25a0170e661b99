//! `wheelwright clusterset`.

use anyhow::anyhow;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use crate::cli::output::Ui;
use crate::cli::runtime::block_on;
use crate::cli::writer::{WriteArgs, find, get, must_exist};
use crate::cli::{CommandError, CommandResult};
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta2::{
    ManagedClusterSet, ManagedClusterSetBinding, ManagedClusterSetBindingSpec, SelectorType,
};
use api::names::CLUSTER_SET_LABEL;
use object::{Key, Metadata as _};

/// Create cluster sets, add clusters to them, and bind them to namespaces.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Create a cluster set.
    Create(Create),
    /// Add clusters to a set. A cluster is in one set, in addition to those that select clusters by labels.
    Set {
        /// Name of the set.
        set: String,
        /// Names of the clusters, separated by commas.
        #[arg(long, value_name = "NAME", value_delimiter = ',', required = true)]
        clusters: Vec<String>,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Bind a set to a namespace, so that placements there can select its clusters.
    Bind {
        /// Name of the set.
        set: String,
        /// Name of the namespace.
        #[arg(short, long, default_value = "default")]
        namespace: String,
        #[command(flatten)]
        write: WriteArgs,
    },
    /// Unbind a set from a namespace. Placements there lose the clusters of the set.
    Unbind {
        /// Name of the set.
        set: String,
        /// Name of the namespace.
        #[arg(short, long, default_value = "default")]
        namespace: String,
        #[command(flatten)]
        write: WriteArgs,
    },
}

#[derive(Debug, clap::Args)]
pub(super) struct Create {
    /// Name of the set.
    set: String,
    #[command(flatten)]
    write: WriteArgs,
}

const SETS: &str = "wheelwright get clustersets";

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    block_on(async {
        match &args.verb {
            Verb::Create(args) => create(args, ui).await,
            Verb::Set { set, clusters, write } => put(set, clusters, write, ui).await,
            Verb::Bind { set, namespace, write } => bind(set, namespace, write, ui).await,
            Verb::Unbind { set, namespace, write } => {
                let mut writer = write.connect().await?;
                let key = Key::namespaced(namespace, set);
                let line = if writer.delete::<ManagedClusterSetBinding>(&key).await? {
                    format!("Clusterset {set} is unbound from Namespace {namespace}")
                } else {
                    format!("Clusterset {set} is not bound to Namespace {namespace}")
                };
                writer.add_line(line);
                writer.finish(ui)
            }
        }
    })
}

pub(super) async fn create(args: &Create, ui: &mut Ui) -> CommandResult {
    let Create { set, write } = args;
    let mut writer = write.connect().await?;
    let metadata = ObjectMeta { name: Some(set.clone()), ..ObjectMeta::default() };
    let object = ManagedClusterSet { metadata, ..ManagedClusterSet::default() };
    let is_new = writer.create(&object).await?.is_some();
    writer.add_line(format!("Clusterset {set} is {}created", if is_new { "" } else { "already " }));
    writer.finish(ui)
}

async fn put(set: &str, clusters: &[String], write: &WriteArgs, ui: &mut Ui) -> CommandResult {
    let mut writer = write.connect().await?;
    let object = get::<ManagedClusterSet>(writer.client(), &Key::cluster(set), SETS).await?;
    let selector = &object.spec.cluster_selector;
    if selector.selector_type == SelectorType::LabelSelector {
        let labels = serde_json::to_string(&selector.label_selector)?;
        let error = anyhow!("Clusterset {set} selects its clusters by their labels: {labels}");
        let hint = format!("kubectl label managedclusters {} KEY=VALUE", clusters.join(" "));
        return Err(CommandError::hinted(error, hint));
    }
    let hint = "wheelwright get clusters";
    for cluster in must_exist::<ManagedCluster>(writer.client(), clusters, hint).await? {
        let name = cluster.name();
        let before = cluster.label(CLUSTER_SET_LABEL).filter(|before| !before.is_empty());
        if before == Some(set) {
            writer.add_line(format!("Cluster {name} is already in Clusterset {set}"));
            continue;
        }
        let patch = json!({"metadata": {"labels": {CLUSTER_SET_LABEL: set}}});
        writer.merge::<ManagedCluster>(&Key::cluster(name), patch).await?;
        writer.add_line(match before {
            Some(before) => format!("Cluster {name} is set, from ClusterSet {before} to Clusterset {set}"),
            None => format!("Cluster {name} is set to Clusterset {set}"),
        });
    }
    writer.finish(ui)
}

async fn bind(set: &str, namespace: &str, write: &WriteArgs, ui: &mut Ui) -> CommandResult {
    let mut writer = write.connect().await?;
    get::<ManagedClusterSet>(writer.client(), &Key::cluster(set), SETS).await?;
    let key = Key::namespaced(namespace, set);
    if find::<ManagedClusterSetBinding>(writer.client(), &key).await?.is_some() {
        writer.add_line(format!("Clusterset {set} is already bound to Namespace {namespace}"));
        return writer.finish(ui);
    }
    let metadata =
        ObjectMeta { namespace: Some(key.namespace), name: Some(key.name), ..ObjectMeta::default() };
    let spec = ManagedClusterSetBindingSpec { cluster_set: set.into(), ..Default::default() };
    let binding = ManagedClusterSetBinding { metadata, spec, ..ManagedClusterSetBinding::default() };
    writer.create(&binding).await?;
    writer.add_line(format!("Clusterset {set} is bound to Namespace {namespace}"));
    writer.finish(ui)
}
