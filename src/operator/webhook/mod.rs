//! Serves the conversion webhook for the versions of OCM's add-on kinds.
//!
//! Every replica serves it, not only the leader. All replicas share one certificate in a Secret. Each renews it
//! and writes its authority to the definitions if no other replica has done so. A definition with another
//! webhook stays unchanged.

mod definitions;
mod options;

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use self::definitions::Others;
use crate::serve::certificate::{self, ServerSecret};
use crate::serve::conversion;
use crate::serve::tls::Serving;
use api::names::WEBHOOK;

pub use options::{WebhookAddress, WebhookOptions};

/// The interval between checks of the certificate and the definitions. Replicas that did not renew the
/// certificate have 30 days to load it.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// The wait after a failure.
const RETRY: Duration = Duration::from_secs(2);

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

/// Keeps the certificate and the definitions up to date until `stop`.
async fn keep(client: &kube::Client, options: &WebhookOptions, serving: &Serving, stop: &CancellationToken) {
    let mut others = Others::default();
    loop {
        let pause = match reconcile(client, options, serving, &mut others).await {
            Ok(()) => CHECK_INTERVAL,
            Err(error) => {
                warn!(%error, "cannot set up the conversion webhook; retrying");
                RETRY
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// The message of a failed attempt, for the log.
type Failure = String;

fn failed(attempt: &'static str) -> impl Fn(kube::Error) -> Failure {
    move |error| format!("cannot {attempt}: {}", crate::shell::message(&error))
}

/// Renews the certificate, writes its authorities to the definitions, and then serves with it.
async fn reconcile(
    client: &kube::Client,
    options: &WebhookOptions,
    serving: &Serving,
    others: &mut Others,
) -> Result<(), Failure> {
    let (namespace, hosts) = (options.namespace.clone(), vec![options.host()]);
    let secret = ServerSecret { namespace, name: WEBHOOK.into(), hosts };
    let stored = certificate::ensure(client, &secret).await?;
    definitions::ensure(client, &options.client_config(&stored.authorities), others).await?;
    let shown = serving.show(&stored.certificate, &stored.key);
    shown.map_err(|error| format!("cannot use the certificate of the conversion webhook: {error}"))
}
