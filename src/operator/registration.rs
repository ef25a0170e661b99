//! Wires a registration operator: an election, the shell with its controller, health and metrics.

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::error;

use super::LeaderCandidate;
use crate::serve::{self, Listen};
use crate::shell::{self, Shell, ShellOptions};
use controllers::registration_operator::OperatorImage;

/// The kind from which a registration operator installs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// Klusterlet, on a managed cluster.
    Klusterlet,
    /// ClusterManager, on a hub.
    ClusterManager,
}

/// The options of a registration operator.
pub struct RegistrationOptions {
    /// The cluster.
    pub cluster: kube::Client,
    /// The kind from which it installs.
    pub component: Component,
    /// The image of what it installs where the object names none; that of this version, of no registry, where
    /// absent.
    pub image: Option<String>,
    /// The election to win before any write; without one the operator must be the only one.
    pub election: Option<LeaderCandidate>,
    /// The address that serves health and metrics.
    pub listen: Option<Listen>,
}

/// Runs until `stop`, or until leadership is lost.
pub async fn run(options: RegistrationOptions, stop: CancellationToken) {
    let RegistrationOptions { cluster, component, image, election, listen } = options;
    let (election, client) = match election {
        Some(LeaderCandidate { election, leader }) => (Some(election), leader),
        None => (None, cluster),
    };
    let shell_options = ShellOptions {
        leadership: election.as_ref().map(super::Election::leadership),
        ..ShellOptions::new(client)
    };
    let shell = Shell::new(shell_options, |register| {
        if let Some(image) = image {
            register.set_settings(OperatorImage(image));
        }
        match component {
            Component::Klusterlet => controllers::klusterlet(register),
            Component::ClusterManager => controllers::cluster_manager(register),
        }
    });
    // Ends everything below when leadership is lost. That is no requested stop, so `stop` stays as it is.
    let over = stop.child_token();
    if let Some(at) = listen {
        let (over, (_, seen)) = (over.clone(), watch::channel(Ok(shell.handle())));
        tokio::spawn(async move {
            if let Err(error) = serve::serve_agent(at, seen, over).await {
                error!(address = %at.address, %error, "cannot serve health and metrics");
            }
        });
    }
    shell::lead(election, over.clone(), shell.run(over)).await;
}
