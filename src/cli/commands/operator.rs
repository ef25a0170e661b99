//! `wheelwright operator`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use json_patch::merge;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::cli::checkout::repository;
use crate::cli::connect::HubArgs;
use crate::cli::election::ElectionArgs;
use crate::cli::installation::git_host;
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;
use crate::cli::{CommandError, CommandResult};
use crate::git::Remote;
use crate::operator::source::SourceOptions;
use crate::operator::traces::TraceOptions;
use crate::operator::webhook::{WebhookAddress, WebhookOptions};
use crate::operator::{self, ArgoCd, OperatorOptions};
use crate::serve::receiver::ReceiverOptions;
use crate::shell::stop_on_signal;
use crate::shell::{self, EnabledControllers};
use api::gitops::v1alpha1::ConfigRepo;
use api::names::{
    CLI, OPERATOR, OPERATOR_IDENTITY_ALLOWED, OPERATOR_IDENTITY_LABEL, SYSTEM_NAMESPACE, WEBHOOK,
};

/// Run the operator against a hub.
///
/// The hub is an embedded hub (`wheelwright hub`), or a Kubernetes API server with the custom resource
/// definitions of Wheelwright or OCM.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    hub: HubArgs,
    /// Controllers to run: `*` means all, `name` adds one, `-name` omits one.
    #[arg(long, value_name = "LIST", default_value = "*", allow_hyphen_values = true)]
    controllers: String,
    #[command(flatten)]
    election: ElectionArgs,
    /// Namespace of the operator. It contains the Lease for the leader election, the Service of
    /// `--webhook-listen`, and the ConfigRepo that `--repo` creates.
    #[arg(long, default_value = SYSTEM_NAMESPACE)]
    namespace: String,
    /// URL or local directory of a repository. The operator creates or updates a ConfigRepo for it.
    #[arg(long, value_name = "URL")]
    repo: Option<String>,
    /// Directory in the repository to render. Default: the root. A pattern such as `clusters/*`, or several
    /// directories, set `spec.paths`.
    #[arg(long, value_name = "DIR", requires = "repo")]
    path: Vec<String>,
    /// Branch of the repository to follow.
    #[arg(long, requires = "repo", default_value = "main")]
    branch: String,
    /// Branch of the same repository to push reports to. Without it, no reports are pushed.
    #[arg(long, value_name = "BRANCH", requires = "repo", default_value = "")]
    report_branch: String,
    /// Address that serves health and metrics, such as `127.0.0.1:8080`.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Address that receives webhooks of git servers over HTTPS, such as `0.0.0.0:9444`. The path for a
    /// ConfigRepo with `spec.webhook` is `/webhooks/NAMESPACE/NAME`.
    #[arg(long, value_name = "ADDRESS", requires_all = ["git_webhook_cert", "git_webhook_key"])]
    git_webhook_listen: Option<SocketAddr>,
    /// File with the certificate for webhooks of git servers, in PEM format.
    #[arg(long, value_name = "FILE", requires = "git_webhook_listen")]
    git_webhook_cert: Option<PathBuf>,
    /// File with the private key of that certificate, in PEM format.
    #[arg(long, value_name = "FILE", requires = "git_webhook_listen")]
    git_webhook_key: Option<PathBuf>,
    /// Address of the conversion webhook for OCM's add-on kinds, such as `0.0.0.0:9443`. The operator adds
    /// the webhook to their definitions. Without it, a Kubernetes hub serves only their version v1alpha1.
    #[arg(long, value_name = "ADDRESS")]
    webhook_listen: Option<SocketAddr>,
    /// Service in the operator's namespace through which API servers reach the conversion webhook.
    #[arg(long, requires = "webhook_listen", default_value = WEBHOOK, value_name = "NAME")]
    webhook_service: String,
    /// URL at which API servers reach the conversion webhook, instead of the Service, such as
    /// `https://host:port`.
    #[arg(long, requires = "webhook_listen", value_name = "URL", value_parser = webhook_url)]
    webhook_url: Option<String>,
    /// Write a ClusterProfile (multicluster.x-k8s.io) for each cluster of a set into the namespaces that the
    /// set is bound to. The hub must have the definition of the kind.
    #[arg(long)]
    cluster_profiles: bool,
    /// Namespace of Argo CD on the hub.
    #[arg(long, value_name = "NAMESPACE")]
    argocd_namespace: Option<String>,
    /// Write an Argo CD Secret for each cluster of a placement that requests Secrets.
    #[arg(long, requires = "argocd_namespace")]
    argocd_cluster_secrets: bool,
    /// ManagedServiceAccount of each cluster whose token these Secrets can contain.
    #[arg(long, value_name = "NAME", requires = "argocd_cluster_secrets", default_value = "")]
    argocd_account: String,
    /// Put the Applications in the namespace of Argo CD that request it into works of their clusters. Anyone
    /// who can write Applications there can have the Argo CD of any cluster run them.
    #[arg(long, requires = "argocd_namespace")]
    argocd_pull_model: bool,
    /// Directory for mirrors of repositories. Only one operator can use it [default:
    /// `$XDG_CACHE_HOME/wheelwright/mirrors`, or else `~/.cache/wheelwright/mirrors`].
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// Hosts that repositories can be on, such as `git.example.com` and `*.example.com`. They can have
    /// private addresses. Default: all hosts with public addresses.
    #[arg(long, value_name = "HOST", value_delimiter = ',', value_parser = git_host)]
    git_hosts: Vec<String>,
    /// Allow repositories on this machine: directories, and http and git URLs on loopback addresses. Anyone
    /// who can write a ConfigRepo can then use them.
    #[arg(long)]
    local_repositories: bool,
    /// OpenTelemetry collector that receives traces of commits over OTLP/HTTP, such as
    /// `http://collector:4318`. Variables such as `OTEL_EXPORTER_OTLP_ENDPOINT` are read too.
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,
}

impl Args {
    fn receiver(&self) -> Option<ReceiverOptions> {
        Some(ReceiverOptions {
            listen: self.git_webhook_listen?,
            certificate: self.git_webhook_cert.clone()?,
            key: self.git_webhook_key.clone()?,
        })
    }

    fn argo_cd(&self) -> Option<ArgoCd> {
        Some(ArgoCd {
            namespace: self.argocd_namespace.clone()?,
            cluster_secrets: self.argocd_cluster_secrets,
            account: self.argocd_account.clone(),
            pull_model: self.argocd_pull_model,
        })
    }

    fn webhook(&self) -> Option<WebhookOptions> {
        let address = match &self.webhook_url {
            Some(url) => WebhookAddress::Url(url.clone()),
            None => WebhookAddress::Service(self.webhook_service.clone()),
        };
        Some(WebhookOptions { listen: self.webhook_listen?, address, namespace: self.namespace.clone() })
    }
}

/// Checks the URL of the webhook: API servers require https, and the path is fixed.
fn webhook_url(url: &str) -> Result<String, String> {
    let uri: http::Uri = url.parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
    let fits = uri.scheme_str() == Some("https") && uri.host().is_some() && uri.path() == "/";
    if fits { Ok(url.to_owned()) } else { Err("write https://host:port without a path".into()) }
}

pub(crate) fn run(args: &Args, _: &mut Ui) -> CommandResult {
    let known = operator::controller_names();
    let controllers = EnabledControllers::parse(&args.controllers, &known)
        .map_err(|reason| CommandError::from(anyhow::anyhow!("--controllers: {reason}")))?;
    let cache = match &args.cache_dir {
        Some(dir) => dir.clone(),
        None => default_cache_dir()?,
    };
    let repo = args.repo.as_deref().map(|repo| repository(Some(repo))).transpose()?;
    let is_local =
        |url: &String| Path::new(url).is_dir() || Remote::parse(url).is_ok_and(|remote| remote.is_local());
    if repo.as_ref().is_some_and(is_local) && !args.local_repositories {
        let error = anyhow::anyhow!("--repo names a repository of this machine");
        return Err(CommandError::hinted(error, "add --local-repositories"));
    }
    let sources =
        SourceOptions { cache, local_repositories: args.local_repositories, hosts: args.git_hosts.clone() };
    let traces = TraceOptions::read(args.otlp_endpoint.as_deref(), |name| std::env::var(name).ok())
        .map_err(CommandError::from)?;
    block_on(async {
        // The kubelet restarts an exiting process with increasing delays. With probes, the operator waits instead.
        let hub = match args.listen {
            Some(_) if repo.is_none() => args.hub.connect_or_wait().await?,
            _ => args.hub.connect().await?,
        };
        if let Some(url) = &repo {
            create_config_repo(&hub, args, url).await?;
        }
        let election = args.election.candidate(&args.hub, &args.namespace, OPERATOR).await?;
        let stop = stop_on_signal();
        operator::run(
            OperatorOptions {
                hub,
                controllers,
                election,
                listen: args.listen,
                receiver: args.receiver(),
                webhook: args.webhook(),
                namespace: args.namespace.clone(),
                cluster_profiles: args.cluster_profiles,
                argo_cd: args.argo_cd(),
                sources,
                traces,
            },
            stop.clone(),
        )
        .await;
        // After losing leadership, exit with a failure so that the supervisor restarts the operator.
        Ok(if stop.is_cancelled() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// Returns the directory for mirrors according to the XDG Base Directory Specification.
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

/// Applies a `ConfigRepo` with only the fields that the flags set. A typed object would set every default and take
/// over fields of other managers.
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
    let mut spec = json!({"url": url, "ref": {"branch": args.branch}});
    let paths = match args.path.as_slice() {
        [] => json!({"path": ""}),
        [path] if !path.contains('*') => json!({"path": path}),
        paths => json!({"paths": paths}),
    };
    merge(&mut spec, &paths);
    if !args.report_branch.is_empty() {
        merge(&mut spec, &json!({"report": {"branch": args.report_branch}}));
    }
    let params = PatchParams::apply(CLI).force();
    // The user has the operator's permissions, so the ConfigRepo may act as the operator.
    let labels = json!({OPERATOR_IDENTITY_LABEL: OPERATOR_IDENTITY_ALLOWED});
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": args.namespace, "labels": labels},
    });
    let namespaces: Api<Namespace> = Api::all(hub.clone());
    let refused = |error: kube::Error| {
        CommandError::hinted(
            anyhow::anyhow!("cannot create the namespace {}: {}", args.namespace, shell::message(&error)),
            format!(
                "an administrator may: kubectl label namespace {} {OPERATOR_IDENTITY_LABEL}={OPERATOR_IDENTITY_ALLOWED}; \
                 then apply a ConfigRepo in place of --repo",
                args.namespace
            ),
        )
    };
    namespaces.patch(&args.namespace, &params, &Patch::Apply(namespace)).await.map_err(refused)?;
    let repo = json!({
        "apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo", "metadata": {"name": name, "namespace": args.namespace}, "spec": spec,
    });
    let repos: Api<ConfigRepo> = Api::namespaced(hub.clone(), &args.namespace);
    let missing = |e: kube::Error| {
        CommandError::hinted(
            anyhow::anyhow!("cannot create the ConfigRepo: {}", shell::message(&e)),
            "wheelwright crds | kubectl apply --server-side -f -",
        )
    };
    repos.patch(&name, &params, &Patch::Apply(repo)).await.map_err(missing)?;
    Ok(())
}
