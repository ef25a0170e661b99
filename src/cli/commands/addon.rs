//! `wheelwright addon`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::cli::CommandResult;
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;
use crate::cli::writer::{WriteArgs, must_exist};
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn, ManagedClusterAddOnSpec};
use api::cluster::v1::ManagedCluster;
use object::Key;

/// Install add-ons on clusters by hand, or remove them. Add-ons that placements install need neither.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Install add-ons on clusters.
    Enable {
        #[command(flatten)]
        which: AddOnArgs,
        /// Namespace of the agent of the add-on on the cluster. Default: the namespace in the configuration
        /// of the add-on.
        #[arg(short, long)]
        namespace: Option<String>,
    },
    /// Remove add-ons from clusters.
    Disable {
        #[command(flatten)]
        which: AddOnArgs,
    },
}

#[derive(Debug, clap::Args)]
struct AddOnArgs {
    /// Names of the add-ons, separated by commas.
    #[arg(long, value_name = "NAME", value_delimiter = ',', required = true)]
    names: Vec<String>,
    /// Names of the clusters, separated by commas.
    #[arg(long, value_name = "NAME", value_delimiter = ',', required = true)]
    clusters: Vec<String>,
    #[command(flatten)]
    write: WriteArgs,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    block_on(async {
        match &args.verb {
            Verb::Enable { which, namespace } => enable(which, namespace.as_deref(), ui).await,
            Verb::Disable { which } => disable(which, ui).await,
        }
    })
}

async fn enable(which: &AddOnArgs, namespace: Option<&str>, ui: &mut Ui) -> CommandResult {
    let AddOnArgs { names, clusters, write } = which;
    let mut writer = write.connect().await?;
    must_exist::<ClusterManagementAddOn>(writer.client(), names, "wheelwright get addons").await?;
    must_exist::<ManagedCluster>(writer.client(), clusters, "wheelwright get clusters").await?;
    for (name, cluster) in names.iter().flat_map(|name| clusters.iter().map(move |cluster| (name, cluster))) {
        let metadata = ObjectMeta {
            namespace: Some(cluster.clone()),
            name: Some(name.clone()),
            ..ObjectMeta::default()
        };
        let install_namespace = namespace.unwrap_or_default().to_owned();
        let spec = ManagedClusterAddOnSpec { install_namespace, ..ManagedClusterAddOnSpec::default() };
        let addon = ManagedClusterAddOn { metadata, spec, ..ManagedClusterAddOn::default() };
        let line = match writer.create(&addon).await? {
            Some(_) => format!("add-on {name} is enabled on cluster {cluster}"),
            None => format!("add-on {name} is already enabled on cluster {cluster}"),
        };
        writer.add_line(line);
    }
    writer.finish(ui)
}

async fn disable(which: &AddOnArgs, ui: &mut Ui) -> CommandResult {
    let AddOnArgs { names, clusters, write } = which;
    let mut writer = write.connect().await?;
    for (name, cluster) in names.iter().flat_map(|name| clusters.iter().map(move |cluster| (name, cluster))) {
        let line = if writer.delete::<ManagedClusterAddOn>(&Key::namespaced(cluster, name)).await? {
            format!("add-on {name} is disabled on cluster {cluster}")
        } else {
            format!("add-on {name} is not enabled on cluster {cluster}")
        };
        writer.add_line(line);
    }
    writer.finish(ui)
}
