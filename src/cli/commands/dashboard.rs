//! `wheelwright dashboard`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use kube::api::ListParams;
use kube::config::AuthInfo;
use kube::{Api, Client};
use tokio::net::TcpListener;
use tokio::runtime;

use crate::cli::cluster_objects::cluster_objects;
use crate::cli::connect::HubArgs;
use crate::cli::follow::follow_with_placements;
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;
use crate::cli::{CommandError, CommandResult};
use crate::dashboard::certificate::CertificateSource;
use crate::dashboard::hub::HubDashboard;
use crate::dashboard::{ClusterObjects, LocalDashboard, OidcOptions, ReadFleet};
use crate::serve::certificate::ServerSecret;
use crate::shell::{Handle, now, stop_on_signal};
use api::names::{DASHBOARD, SYSTEM_NAMESPACE};
use api::work::v1::ManifestWork;
use controllers::hub::overview::Overview;
use controllers::hub::placement::{self, LabelChange};
use engine::placement::explain::Explanation;
use object::Key;

/// Show the fleet in a browser, as it changes.
///
/// Without `--listen`, the page is for this machine. It shows what the kubeconfig can read, listens only on
/// 127.0.0.1, and opens only with the secret in its URL. With `--listen`, the page is for everyone with a
/// token of the hub. It shows what the visitor can list on the hub, with buttons for what the visitor can
/// change. The chart runs it this way.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    hub: HubArgs,
    /// Port to listen on. Default: a free port.
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Address that serves people with tokens of the hub over HTTPS, such as `0.0.0.0:9445`.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "port")]
    listen: Option<SocketAddr>,
    /// Namespace of the Secret `wheelwright-dashboard`, with the certificate that the dashboard creates and
    /// renews.
    #[arg(long, requires = "listen", default_value = SYSTEM_NAMESPACE)]
    namespace: String,
    /// Names in the certificate, by which browsers reach the page, separated by commas [default: the Service
    /// of the chart, and localhost].
    #[arg(long, requires = "listen", value_name = "HOST", value_delimiter = ',')]
    hosts: Vec<String>,
    /// File with your own certificate, in PEM format, instead of the one that the dashboard creates. A change
    /// takes effect within a minute.
    #[arg(long, value_name = "FILE", requires_all = ["listen", "key"])]
    cert: Option<PathBuf>,
    /// File with the private key of that certificate, in PEM format.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// URL of the OpenID Connect provider whose ID tokens the hub accepts, as in the flag of kube-apiserver. The
    /// login page then leads to it. The provider must allow the redirect to `https://HOST/oidc-callback`.
    #[arg(long, value_name = "URL", requires_all = ["listen", "oidc_client_id"], value_parser = issuer)]
    oidc_issuer_url: Option<String>,
    /// Client of the provider, as in the flag of kube-apiserver.
    #[arg(long, value_name = "ID", requires = "oidc_issuer_url")]
    oidc_client_id: Option<String>,
    /// File with the secret of the client. Without it, the client is a public one.
    #[arg(long, value_name = "FILE", requires = "oidc_issuer_url")]
    oidc_client_secret_file: Option<PathBuf>,
    /// Scopes to request in addition to `openid`, separated by commas, such as `email,groups`.
    #[arg(long, value_name = "SCOPE", requires = "oidc_issuer_url", value_delimiter = ',')]
    oidc_extra_scope: Vec<String>,
}

fn issuer(url: &str) -> Result<String, String> {
    let is_valid =
        url.strip_prefix("https://").is_some_and(|rest| !rest.is_empty() && !rest.contains(['?', '#']));
    is_valid.then(|| url.to_owned()).ok_or_else(|| "it is not an https:// URL without a query".into())
}

impl Args {
    fn oidc(&self) -> Result<Option<OidcOptions>, CommandError> {
        let (Some(issuer), Some(client)) = (&self.oidc_issuer_url, &self.oidc_client_id) else {
            return Ok(None);
        };
        let read = |file: &PathBuf| {
            let secret = std::fs::read_to_string(file);
            secret.with_context(|| format!("cannot read {}", file.display()))
        };
        let secret = self.oidc_client_secret_file.as_ref().map(read).transpose()?;
        Ok(Some(OidcOptions {
            issuer: issuer.clone(),
            client_id: client.clone(),
            client_secret: secret.map(|secret| secret.trim_end().to_owned()),
            extra_scopes: self.oidc_extra_scope.clone(),
        }))
    }
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    block_on(async {
        match args.listen {
            Some(address) => serve_hub(args, address, ui).await,
            None => serve_local(args, ui).await,
        }
    })
}

async fn serve_local(args: &Args, ui: &mut Ui) -> CommandResult {
    let hub = args.hub.connect().await?;
    let dashboard = LocalDashboard::listen(args.port).await.map_err(|error| {
        let error = anyhow::Error::new(error).context(format!("cannot listen on port {}", args.port));
        CommandError::hinted(error, "omit --port to use a free port")
    })?;
    ui.line(format!("dashboard at {}", dashboard.url))?;
    let shell = follow_with_placements(hub.clone());
    let reader = Arc::new(FollowedFleet(shell.handle(), hub));
    let stop = stop_on_signal();
    let ((), served) = tokio::join!(shell.run(stop.clone()), dashboard.serve(reader, stop.clone()));
    served.context("the dashboard cannot be served")?;
    Ok(ExitCode::SUCCESS)
}

async fn serve_hub(args: &Args, address: SocketAddr, ui: &mut Ui) -> CommandResult {
    let (oidc, client) = (args.oidc()?, args.hub.connect().await?);
    let mut config = args.hub.config().await?;
    config.auth_info = AuthInfo::default();
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen at {address}"))?;
    ui.line(format!("dashboard at https://{}", listener.local_addr()?))?;
    let hosts = match args.hosts.as_slice() {
        [] => vec![format!("{DASHBOARD}.{}.svc", args.namespace), "localhost".to_owned()],
        hosts => hosts.to_vec(),
    };
    let certificate = match (&args.cert, &args.key) {
        (Some(certificate), Some(key)) => {
            CertificateSource::Files { certificate: certificate.clone(), key: key.clone() }
        }
        _ => CertificateSource::Made(ServerSecret {
            namespace: args.namespace.clone(),
            name: DASHBOARD.into(),
            hosts,
        }),
    };
    let shell = follow_with_placements(client.clone());
    let reader = Arc::new(FollowedFleet(shell.handle(), client.clone()));
    let stop = stop_on_signal();
    let dashboard = HubDashboard { client, config, certificate, oidc };
    tokio::join!(shell.run(stop.clone()), dashboard.serve(listener, reader, stop.clone()));
    Ok(ExitCode::SUCCESS)
}

/// The maximum number of works of a cluster.
const MAX_WORKS: u32 = 200;

/// The caches of a shell that watches a hub, and a client for objects that it does not watch.
struct FollowedFleet(Handle, Client);

impl ReadFleet for FollowedFleet {
    fn overview(&self) -> Result<Overview, String> {
        Overview::with_undo(&self.0.caches(), now()).map_err(|unread| unread.to_string())
    }

    fn placement(
        &self,
        placement: &Key,
        change: Option<&LabelChange>,
    ) -> Result<Option<Explanation>, String> {
        let explained = placement::explain_with(placement, change, &self.0.caches(), now());
        explained.map_err(|unread| unread.to_string())
    }

    fn cluster(&self, name: &str) -> Result<ClusterObjects, String> {
        let cached = cluster_objects(name, &self.0.caches()).map_err(|unread| unread.to_string())?;
        // The shell caches only the works of sets.
        let works = Api::<ManifestWork>::namespaced(self.1.clone(), name);
        let listed = runtime::Handle::current().block_on(works.list(&ListParams::default().limit(MAX_WORKS)));
        Ok(match listed {
            Ok(listed) => {
                ClusterObjects { works: listed.items.into_iter().map(Arc::new).collect(), ..cached }
            }
            Err(_) => cached,
        })
    }
}
