//! Converts between the versions of OCM's add-on kinds for a Kubernetes API server.
//!
//! Every replica serves, whether or not it leads. They share one certificate in a Secret, and each of them
//! renews it and writes its authority into the definitions if no other replica has. A definition that another
//! webhook converts stays as it is.

mod definitions;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    ServiceReference, WebhookClientConfig,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::serve::certificate::{self, ServerSecret};
use crate::serve::conversion::{self, PATH};
use crate::serve::tls::Serving;

/// Time between two checks of the certificate and the definitions. A replica that renews the certificate
/// leaves the others 30 days.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// The Secret with its certificate.
const SECRET: &str = "wheelwright-webhook";
/// Time to wait after a failure.
const RETRY: Duration = Duration::from_secs(2);

/// The address at which API servers reach the webhook.
#[derive(Clone, Debug)]
pub enum WebhookAddress {
    /// A Service of the operator's namespace, port 443.
    Service(String),
    /// `https://host:port`, without a path.
    Url(String),
}

/// The options of the webhook.
#[derive(Clone, Debug)]
pub struct WebhookOptions {
    /// The address that it listens on.
    pub listen: SocketAddr,
    /// The address at which API servers reach it.
    pub address: WebhookAddress,
    /// The namespace of the Secret with the certificate, and of the Service.
    pub namespace: String,
}

impl WebhookOptions {
    /// Returns the name that the certificate is for.
    fn host(&self) -> String {
        match &self.address {
            WebhookAddress::Service(name) => format!("{name}.{}.svc", self.namespace),
            WebhookAddress::Url(url) => {
                let uri = url.parse::<http::Uri>().ok();
                let host = uri.as_ref().and_then(http::Uri::host).unwrap_or_default();
                host.trim_matches(['[', ']']).to_owned()
            }
        }
    }

    /// Returns the webhook configuration for a definition.
    fn client_config(&self, authorities: &str) -> WebhookClientConfig {
        let ca_bundle = Some(ByteString(authorities.as_bytes().to_vec()));
        match &self.address {
            WebhookAddress::Service(name) => {
                let service = ServiceReference {
                    name: name.clone(),
                    namespace: self.namespace.clone(),
                    path: Some(PATH.into()),
                    port: Some(443),
                };
                WebhookClientConfig { ca_bundle, service: Some(service), url: None }
            }
            WebhookAddress::Url(url) => {
                let url = Some(format!("{}{PATH}", url.trim_end_matches('/')));
                WebhookClientConfig { ca_bundle, service: None, url }
            }
        }
    }
}

/// Serves until `stop`.
pub(super) async fn run(client: kube::Client, options: WebhookOptions, stop: CancellationToken) {
    let listener = match TcpListener::bind(options.listen).await {
        Ok(listener) => listener,
        Err(error) => {
            error!(address = %options.listen, %error, "cannot serve the conversion webhook");
            return;
        }
    };
    info!(address = %options.listen, host = options.host(), "serving the conversion webhook");
    let serving = Arc::new(Serving::default());
    let served = conversion::serve(listener, Arc::clone(&serving), stop.clone());
    tokio::join!(
        async {
            if let Err(error) = served.await {
                error!(%error, "cannot serve the conversion webhook");
            }
        },
        keep(&client, &options, &serving, &stop)
    );
}

/// Keeps the certificate and the definitions until `stop`.
async fn keep(client: &kube::Client, options: &WebhookOptions, serving: &Serving, stop: &CancellationToken) {
    loop {
        let pause = match reconcile(client, options, serving).await {
            Ok(()) => CHECK_INTERVAL,
            Err(error) => {
                warn!(%error, "cannot set up the conversion webhook; it is tried again");
                RETRY
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// The error of an attempt, for the log.
type Failure = String;

fn failed(attempt: &'static str) -> impl Fn(kube::Error) -> Failure {
    move |error| format!("cannot {attempt}: {error}")
}

/// Renews the certificate, writes its authorities into the definitions, and then serves with it.
async fn reconcile(
    client: &kube::Client,
    options: &WebhookOptions,
    serving: &Serving,
) -> Result<(), Failure> {
    let (namespace, hosts) = (options.namespace.clone(), vec![options.host()]);
    let secret = ServerSecret { namespace, name: SECRET.into(), hosts };
    let kept = certificate::ensure(client, &secret).await?;
    definitions::ensure(client, &options.client_config(&kept.authorities)).await?;
    let shown = serving.show(&kept.certificate, &kept.key);
    shown.map_err(|error| format!("cannot use the certificate of the conversion webhook: {error}"))
}
