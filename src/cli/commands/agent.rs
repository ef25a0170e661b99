//! `wheelwright agent`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use kube::config::Kubeconfig;

use crate::agent::{self, AgentOptions, Bootstrap};
use crate::cli::connect::{connect, stop_on_signal};
use crate::cli::output::Ui;
use crate::cli::{CommandError, CommandResult};
use crate::shell::Selection;
use api::names::{AGENT_NAMESPACE, HUB_KUBECONFIG_SECRET};
use object::Key;

/// Run the agent of a managed cluster.
///
/// It joins the hub, renews the lease of the cluster, applies works and reports their status. The hub is any
/// hub of Open Cluster Management. The agent waits until the hub accepts the cluster and approves its
/// certificate request.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Bootstrap kubeconfig, for the hub as long as the cluster has not joined.
    #[arg(long, value_name = "FILE")]
    hub_kubeconfig: PathBuf,
    /// Kubeconfig of the managed cluster. Default: `KUBECONFIG`, `~/.kube/config`, or the service account of
    /// the pod.
    #[arg(long, value_name = "FILE")]
    spoke_kubeconfig: Option<PathBuf>,
    /// Name of the cluster on the hub.
    #[arg(long, value_name = "NAME")]
    spoke_cluster_name: String,
    /// Name of the agent in its identity on the hub. An identity with another name is replaced. Default: the
    /// name in the identity that is kept, else a random one.
    #[arg(long, value_name = "ID")]
    agent_id: Option<String>,
    /// Namespace on the managed cluster of the secret that keeps the identity.
    #[arg(long, default_value = AGENT_NAMESPACE)]
    namespace: String,
    /// Name of the secret that keeps the identity, in the form of OCM's agent.
    #[arg(long, value_name = "NAME", default_value = HUB_KUBECONFIG_SECRET)]
    hub_kubeconfig_secret: String,
    /// How add-ons prove their identity to the API server of the hub: by a client certificate, or by a token of a
    /// service account that the hub makes for each of them.
    #[arg(long, value_name = "DRIVER", default_value = "csr", value_parser = ["csr", "token"])]
    addon_kubeclient_registration_auth: String,
    /// Controllers to run: `*` means all, `name` adds one, `-name` leaves one out.
    /// `-work-agent,-unmanaged-applied-work,*` is a registration agent beside OCM's work agent;
    /// `work-agent,unmanaged-applied-work` is a work agent that uses the identity which OCM's registration
    /// agent keeps in the secret.
    #[arg(long, default_value = "*", allow_hyphen_values = true)]
    controllers: String,
}

pub(crate) fn run(args: &Args, _: &mut Ui) -> CommandResult {
    let name = &args.spoke_cluster_name;
    let is_legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty()
        || name.len() > 63
        || !name.chars().all(is_legal)
        || name.starts_with('-')
        || name.ends_with('-')
    {
        let error =
            anyhow::anyhow!("--spoke-cluster-name: {name:?} is not a valid name of a namespace on the hub");
        return Err(CommandError::hinted(error, "use at most 63 lower-case letters, digits and '-'"));
    }
    let controllers = Selection::parse(&args.controllers, &agent::controller_names())
        .map_err(|why| CommandError::from(anyhow::anyhow!("--controllers: {why}")))?;
    if args.agent_id.as_ref().is_some_and(|id| !object::names::is_dns_label(id)) {
        let error = anyhow::anyhow!("--agent-id is not a valid name of an agent");
        return Err(CommandError::hinted(error, "use at most 63 lower-case letters, digits and '-'"));
    }
    super::block_on(async {
        let path = &args.hub_kubeconfig;
        Kubeconfig::read_from(path)
            .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?;
        let bootstrap = Bootstrap::File(path.clone());
        let spoke = connect(args.spoke_kubeconfig.as_deref(), None).await?;
        let stop = stop_on_signal();
        let options = AgentOptions {
            agent_id: args.agent_id.clone(),
            addon_driver: args.addon_kubeclient_registration_auth.clone().into(),
            secret: Key::namespaced(&args.namespace, &args.hub_kubeconfig_secret),
            controllers,
            ..AgentOptions::new(bootstrap, spoke, name)
        };
        agent::run(options, stop).await;
        Ok(ExitCode::SUCCESS)
    })
}
