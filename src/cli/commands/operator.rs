//! `wheelwright operator`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio_util::sync::CancellationToken;

use crate::cli::{CommandError, CommandResult};
use crate::operator::{self, OperatorOptions};
use crate::shell::{self, ElectionOptions, Selection};

/// Run the operator against a hub.
///
/// The hub is any Kubernetes API server with Wheelwright's or OCM's custom resource definitions, or `wheelwright hub`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The hub's kubeconfig; without it `KUBECONFIG`, `~/.kube/config` or the service account of the pod.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context.
    #[arg(long)]
    context: Option<String>,
    /// Controllers to run: `*` is all, `name` adds one, `-name` leaves one out.
    #[arg(long, default_value = "*", allow_hyphen_values = true)]
    controllers: String,
    /// Wait to be elected before writing anything; needed where more than one operator runs.
    #[arg(long, default_value_t = false)]
    leader_elect: bool,
    /// Namespace of the election's Lease, and of the `ConfigRepo` that --repo creates.
    #[arg(long, default_value = "wheelwright-system")]
    namespace: String,
    /// Address for health and metrics, such as `127.0.0.1:8080`.
    #[arg(long)]
    listen: Option<SocketAddr>,
}

pub(crate) fn run(args: &Args) -> CommandResult {
    let known = operator::controller_names();
    let controllers =
        Selection::parse(&args.controllers, &known).map_err(|why| CommandError::from(anyhow::anyhow!("--controllers: {why}")))?;
    super::block_on(async {
        let hub = connect(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
        let identity = format!("{}_{}", std::env::var("HOSTNAME").unwrap_or_else(|_| "wheelwright".into()), std::process::id());
        let election = args.leader_elect.then(|| ElectionOptions::new(&args.namespace, "wheelwright-operator", identity));
        let stop = stop_on_signal();
        operator::run(OperatorOptions { hub, controllers, election, listen: args.listen }, stop.clone()).await;
        // Losing the leadership is not what was asked for: whoever supervises the process should start it again.
        Ok(if stop.is_cancelled() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// Connects to the API server a kubeconfig names.
pub(super) async fn connect(kubeconfig: Option<&std::path::Path>, context: Option<&str>) -> Result<kube::Client, CommandError> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let config = match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).with_context(|| format!("cannot read the kubeconfig {}", path.display()))?;
            kube::Config::from_custom_kubeconfig(file, &options).await.context("cannot use the kubeconfig")?
        }
        None if context.is_some() => kube::Config::from_kubeconfig(&options).await.context("cannot use the kubeconfig")?,
        None => {
            let hint = "name one with --kubeconfig, or set KUBECONFIG";
            kube::Config::infer().await.map_err(|e| CommandError::hinted(anyhow::anyhow!("found no hub to connect to: {e}"), hint))?
        }
    };
    let url = config.cluster_url.clone();
    let client = shell::client(config).context("cannot use the kubeconfig")?;
    let unreachable = |e| CommandError::hinted(anyhow::Error::new(e).context(format!("cannot reach {url}")), "is the API server running?");
    client.apiserver_version().await.map_err(unreachable)?;
    Ok(client)
}

/// A token that is cancelled by Ctrl-C or SIGTERM.
pub(super) fn stop_on_signal() -> CancellationToken {
    let stop = CancellationToken::new();
    let token = stop.clone();
    tokio::spawn(async move {
        let mut terminate = match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(terminate) => terminate,
            Err(error) => {
                tracing::error!(%error, "cannot listen for signals");
                return;
            }
        };
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        token.cancel();
    });
    stop
}
