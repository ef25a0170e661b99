//! The manager of an add-on: a process on the hub or next to it.
//!
//! Several managers may run; only the one with the Lease writes. A manager that loses the Lease exits, and its
//! supervisor restarts it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::{AddOn, health, hub};
use object::text::first_line;
use reconcile::Scope;
use shell::{Election, ElectionOptions, Shell, ShellOptions, with_causes};

/// The options of a manager.
#[derive(Debug)]
pub struct ManagerOptions {
    /// The kubeconfig of the hub. Without one: `KUBECONFIG`, `~/.kube/config`, or the service account of the pod.
    pub kubeconfig: Option<PathBuf>,
    /// The namespace of the Lease, which is named `<add-on>-manager`. Without a namespace there must be only one
    /// manager.
    pub lease_namespace: Option<String>,
    /// The address for `/livez`, `/readyz` and `/metrics`.
    pub listen: Option<SocketAddr>,
}

/// The reason that a manager or an agent cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A kubeconfig is missing or cannot be used.
    #[error("cannot use {file}: {reason}")]
    Kubeconfig {
        /// The file, or the default locations.
        file: String,
        /// The first line of the loader's error, with its causes.
        reason: String,
    },
    /// Another manager has the Lease now.
    #[error("lost the leadership to another manager")]
    NotLeading,
}

/// Runs the manager of an add-on until `stop`.
///
/// # Errors
/// Fails if the kubeconfig cannot be used, or if the leadership is lost.
pub async fn run<A: AddOn>(options: ManagerOptions, stop: CancellationToken) -> Result<(), Error> {
    let ManagerOptions { kubeconfig, lease_namespace, listen } = options;
    // If the program has installed a provider, that provider stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = config(kubeconfig.as_deref()).await?;
    let client =
        |made: kube::Result<kube::Client>| made.map_err(|error| unusable(kubeconfig.as_deref(), &error));
    let mut election = None;
    let mut hub = client(shell::client(config.clone()))?;
    if let Some(namespace) = lease_namespace {
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| A::NAME.to_owned());
        let options = ElectionOptions::new(namespace, format!("{}-manager", A::NAME), &host);
        // The election has a separate connection, so that other requests cannot delay a renewal.
        let candidate = Election::new(hub, options);
        hub = client(shell::leader_client(config, candidate.leadership()))?;
        election = Some(candidate);
    }
    let shell_options = ShellOptions {
        scope: Scope::OneAddOn(A::NAME.to_owned()),
        leadership: election.as_ref().map(Election::leadership),
        ..ShellOptions::new(hub)
    };
    let shell = Shell::new(shell_options, hub::controllers::<A>);
    // Stops everything below when the leadership is lost. Only callers cancel `stop`.
    let over = stop.child_token();
    if let Some(address) = listen {
        let (handle, over) = (shell.handle(), over.clone());
        tokio::spawn(async move {
            if let Err(error) = health::serve(address, handle, over).await {
                error!(%address, %error, "cannot serve health and metrics");
            }
        });
    }
    shell::lead(election, over.clone(), shell.run(over)).await;
    if stop.is_cancelled() { Ok(()) } else { Err(Error::NotLeading) }
}

/// Returns the client configuration for an API server.
///
/// # Errors
/// Fails if the kubeconfig cannot be used.
pub(crate) async fn config(kubeconfig: Option<&Path>) -> Result<kube::Config, Error> {
    shell::config(kubeconfig, None).await.map_err(|error| unusable(kubeconfig, &error))
}

/// Returns an error for an unusable kubeconfig, with all causes.
pub(crate) fn unusable(kubeconfig: Option<&Path>, error: &(dyn std::error::Error + 'static)) -> Error {
    let file = kubeconfig.map_or_else(
        || "KUBECONFIG, ~/.kube/config or the service account of the pod".to_owned(),
        |path| path.display().to_string(),
    );
    Error::Kubeconfig { file, reason: first_line(&with_causes(error)).to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_that_cannot_be_parsed_is_named_and_not_quoted() {
        let error = shell::parse_kubeconfig("users:\n- user: {token: s3cret").unwrap_err();
        assert!(error.to_string().contains("s3cret"), "the parser quotes it: {error}");
        let shown = unusable(Some(Path::new("/etc/hub.kubeconfig")), &error).to_string();
        assert!(shown.contains("/etc/hub.kubeconfig") && !shown.contains("s3cret"), "{shown}");
    }
}
