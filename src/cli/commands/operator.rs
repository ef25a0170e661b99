//! `wheelwright operator`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use json_patch::merge;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::cli::{CommandError, CommandResult};
use crate::operator::{self, OperatorOptions};
use crate::shell::{self, ElectionOptions, Selection};
use api::gitops::v1alpha1::ConfigRepo;

/// Run the operator against a hub.
///
/// The hub is any Kubernetes API server with Wheelwright's or OCM's custom resource definitions, or `wheelwright hub`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    hub: HubArgs,
    /// Controllers to run: `*` is all, `name` adds one, `-name` leaves one out.
    #[arg(long, default_value = "*", allow_hyphen_values = true)]
    controllers: String,
    /// Wait to be elected before writing anything; needed where more than one operator runs.
    #[arg(long, default_value_t = false)]
    leader_elect: bool,
    /// Namespace of the election's Lease, and of the `ConfigRepo` that --repo creates.
    #[arg(long, default_value = "wheelwright-system")]
    namespace: String,
    /// Create (or update) a `ConfigRepo` for this repository: a URL, or a directory of this machine.
    #[arg(long, value_name = "URL")]
    repo: Option<String>,
    /// Directory of the repository to render.
    #[arg(long, requires = "repo", default_value = "")]
    path: String,
    /// Branch of the repository to follow.
    #[arg(long, requires = "repo", default_value = "main")]
    branch: String,
    /// Branch of the same repository to push status reports to; none are pushed where empty.
    #[arg(long, requires = "repo", default_value = "")]
    report_branch: String,
    /// Address for health and metrics, such as `127.0.0.1:8080`.
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Directory for mirrors of repositories, not shared with another operator [default: `$XDG_CACHE_HOME/wheelwright/mirrors`,
    /// else `~/.cache/wheelwright/mirrors`].
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> CommandResult {
    let known = operator::controller_names();
    let controllers = Selection::parse(&args.controllers, &known)
        .map_err(|why| CommandError::from(anyhow::anyhow!("--controllers: {why}")))?;
    let cache = match &args.cache_dir {
        Some(dir) => dir.clone(),
        None => default_cache_dir()?,
    };
    super::block_on(async {
        let hub = args.hub.connect().await?;
        if let Some(url) = &args.repo {
            create_config_repo(&hub, args, url).await?;
        }
        let identity = format!(
            "{}_{}",
            std::env::var("HOSTNAME").unwrap_or_else(|_| "wheelwright".into()),
            std::process::id()
        );
        let election = args
            .leader_elect
            .then(|| ElectionOptions::new(&args.namespace, "wheelwright-operator", identity));
        let stop = stop_on_signal();
        operator::run(
            OperatorOptions { hub, controllers, election, listen: args.listen, cache },
            stop.clone(),
        )
        .await;
        // Losing the leadership is not what was asked for: whoever supervises the process should start it again.
        Ok(if stop.is_cancelled() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// The directory for mirrors that the XDG Base Directory Specification names.
fn default_cache_dir() -> Result<PathBuf, CommandError> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    let cache = cache.ok_or_else(|| {
        let error =
            anyhow::anyhow!("neither XDG_CACHE_HOME nor HOME names a directory for mirrors of repositories");
        CommandError::hinted(error, "name one with --cache-dir")
    })?;
    Ok(cache.join("wheelwright/mirrors"))
}

/// Applies the `ConfigRepo` that `--repo` asks for; fields that somebody set beyond it stay.
async fn create_config_repo(hub: &kube::Client, args: &Args, url: &str) -> Result<(), CommandError> {
    let name = url
        .trim_end_matches(['/', '.'])
        .trim_end_matches(".git")
        .rsplit(['/', ':'])
        .next()
        .unwrap_or_default();
    let name: String =
        name.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let name = Some(name.trim_matches('-').to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "config".into());
    let mut spec = json!({"url": absolute(url), "path": args.path, "ref": {"branch": args.branch}});
    if !args.report_branch.is_empty() {
        merge(&mut spec, &json!({"report": {"branch": args.report_branch}}));
    }
    let params = PatchParams::apply("wheelwright-cli").force();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": args.namespace}});
    let namespaces: Api<Namespace> = Api::all(hub.clone());
    namespaces
        .patch(&args.namespace, &params, &Patch::Apply(namespace))
        .await
        .context("cannot create the namespace of the ConfigRepo")?;
    let repo = json!({
        "apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo", "metadata": {"name": name, "namespace": args.namespace}, "spec": spec,
    });
    let repos: Api<ConfigRepo> = Api::namespaced(hub.clone(), &args.namespace);
    let missing = |e| {
        CommandError::hinted(
            anyhow::Error::new(e).context("cannot create the ConfigRepo"),
            "wheelwright crds | kubectl apply --server-side -f -",
        )
    };
    repos.patch(&name, &params, &Patch::Apply(repo)).await.map_err(missing)?;
    Ok(())
}

/// A directory of this machine by its whole path, because the operator's own directory may be another; a URL as it is.
fn absolute(url: &str) -> String {
    match std::path::Path::new(url).canonicalize() {
        Ok(path) => path.to_string_lossy().into_owned(),
        Err(_) => url.to_owned(),
    }
}

/// Which hub a command talks to.
#[derive(Debug, Default, clap::Args)]
pub(super) struct HubArgs {
    /// The hub's kubeconfig; without it `KUBECONFIG`, `~/.kube/config` or the service account of the pod.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context.
    #[arg(long)]
    context: Option<String>,
}

impl HubArgs {
    /// Connects to it.
    pub(super) async fn connect(&self) -> Result<kube::Client, CommandError> {
        connect(self.kubeconfig.as_deref(), self.context.as_deref()).await
    }
}

/// Connects to the API server a kubeconfig names.
pub(super) async fn connect(
    kubeconfig: Option<&std::path::Path>,
    context: Option<&str>,
) -> Result<kube::Client, CommandError> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let config = match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?;
            kube::Config::from_custom_kubeconfig(file, &options).await.context("cannot use the kubeconfig")?
        }
        None if context.is_some() => {
            kube::Config::from_kubeconfig(&options).await.context("cannot use the kubeconfig")?
        }
        None => {
            let hint = "name one with --kubeconfig, or set KUBECONFIG";
            kube::Config::infer()
                .await
                .map_err(|e| CommandError::hinted(anyhow::anyhow!("found no hub to connect to: {e}"), hint))?
        }
    };
    let url = config.cluster_url.clone();
    let client = shell::client(config).context("cannot use the kubeconfig")?;
    client.apiserver_version().await.map_err(|error| match error {
        kube::Error::Api(_) => {
            let hint = "are the kubeconfig's credentials meant for this hub, and still valid?";
            CommandError::hinted(anyhow::anyhow!("{url} refuses us: {}", shell::said(&error)), hint)
        }
        error => CommandError::hinted(
            anyhow::Error::new(error).context(format!("cannot reach {url}")),
            "is the API server running?",
        ),
    })?;
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
