//! `wheelwright agent`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use kube::config::Kubeconfig;

use super::operator::{connect, stop_on_signal};
use crate::agent::{self, AgentOptions};
use crate::cli::{CommandError, CommandResult};

/// Run the agent of a managed cluster.
///
/// It joins the hub, keeps the cluster's lease, applies works and reports what became of them. The hub is any hub of Open Cluster
/// Management. Until somebody there accepts the cluster and approves its certificate request, the agent waits.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How the hub is reached before the cluster has joined: a bootstrap kubeconfig.
    #[arg(long, value_name = "FILE")]
    hub_kubeconfig: PathBuf,
    /// The managed cluster's kubeconfig; without it the service account of the pod, or `KUBECONFIG`.
    #[arg(long, value_name = "FILE")]
    spoke_kubeconfig: Option<PathBuf>,
    /// Name of the cluster on the hub.
    #[arg(long, value_name = "NAME")]
    spoke_cluster_name: String,
}

pub(crate) fn run(args: &Args) -> CommandResult {
    let name = &args.spoke_cluster_name;
    let is_legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty()
        || name.len() > 63
        || !name.chars().all(is_legal)
        || name.starts_with('-')
        || name.ends_with('-')
    {
        let error =
            anyhow::anyhow!("--spoke-cluster-name: {name:?} cannot be the name of a namespace on the hub");
        return Err(CommandError::hinted(error, "use lower-case letters, digits and '-', up to 63 of them"));
    }
    super::block_on(async {
        let path = &args.hub_kubeconfig;
        let bootstrap = Kubeconfig::read_from(path)
            .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?;
        let spoke = connect(args.spoke_kubeconfig.as_deref(), None).await?;
        let stop = stop_on_signal();
        agent::run(AgentOptions { bootstrap, spoke, cluster: name.clone() }, stop).await;
        Ok(ExitCode::SUCCESS)
    })
}
