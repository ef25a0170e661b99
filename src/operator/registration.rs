//! Wires a registration operator: an election, the shell with its controller, health and metrics.

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::error;

use super::LeaderCandidate;
use crate::serve::{self, Listen};
use crate::shell::{self, Shell, ShellOptions};
use controllers::registration_operator::OperatorImage;

/// The kind that a registration operator installs from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// A Klusterlet, on a managed cluster.
    Klusterlet,
    /// A ClusterManager, on a hub.
    ClusterManager,
}

/// The options of a registration operator.
pub struct RegistrationOptions {
    /// The client for the cluster.
    pub cluster: kube::Client,
    /// The kind to install from.
    pub component: Component,
    /// The image to install if the object names none. `None` means the image of this version, without a
    /// registry.
    pub image: Option<String>,
    /// The election to win before any write. Without one, this must be the only operator.
    pub election: Option<LeaderCandidate>,
    /// The address for health and metrics.
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
    // Stops everything below when leadership is lost. That is not a requested stop, so `stop` is not canceled.
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
