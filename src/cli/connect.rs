//! The connection of a command to an API server.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};

use super::CommandError;
use crate::shell::{self, Leadership};

/// The hub that a command connects to.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct HubArgs {
    /// Kubeconfig of the hub. Default: `KUBECONFIG`, `~/.kube/config`, or the service account of the pod.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    #[arg(long)]
    context: Option<String>,
}

impl HubArgs {
    /// Connects to the hub.
    pub(super) async fn connect(&self) -> Result<kube::Client, CommandError> {
        connect(self.kubeconfig.as_deref(), self.context.as_deref()).await
    }

    /// Returns a client of the hub that sends nothing after the process has lost this leadership.
    pub(super) async fn connect_as_leader(
        &self,
        leadership: Leadership,
    ) -> Result<kube::Client, CommandError> {
        let client = shell::leader_client(self.config().await?, leadership);
        Ok(client.context("cannot use the kubeconfig")?)
    }

    /// Returns the configuration of the connection to the hub.
    pub(super) async fn config(&self) -> Result<kube::Config, CommandError> {
        config(self.kubeconfig.as_deref(), self.context.as_deref()).await
    }
}

/// Returns whether an API server is embedded in a process of ours. It runs no pods.
pub(super) async fn is_embedded(client: &kube::Client) -> Result<bool, kube::Error> {
    Ok(client.apiserver_version().await?.git_version.ends_with("+wheelwright"))
}

/// Connects to the API server that a kubeconfig names, and checks that it answers.
///
/// # Errors
/// The kubeconfig cannot be used, the API server does not answer, or it refuses the credentials.
pub(super) async fn connect(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<kube::Client, CommandError> {
    answering(config(kubeconfig, context).await?).await
}

/// Connects to an API server, and checks that it answers.
///
/// # Errors
/// It does not answer, or refuses the credentials.
pub(super) async fn answering(config: kube::Config) -> Result<kube::Client, CommandError> {
    let url = config.cluster_url.clone();
    let client = shell::client(config).context("cannot use the kubeconfig")?;
    client.apiserver_version().await.map_err(|error| match error {
        kube::Error::Api(_) => CommandError::hinted(
            anyhow::anyhow!("{url} refuses the credentials: {}", shell::message(&error)),
            "check that the kubeconfig is for this hub and that its credentials have not expired",
        ),
        error => CommandError::hinted(
            anyhow::Error::new(error).context(format!("cannot reach {url}")),
            "check that the API server is running",
        ),
    })?;
    Ok(client)
}

/// Returns the configuration of the connection to an API server.
///
/// # Errors
/// The kubeconfig cannot be used.
pub(super) async fn config(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<kube::Config, CommandError> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let config = match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?;
            kube::Config::from_custom_kubeconfig(file, &options).await
        }
        None if context.is_some() => kube::Config::from_kubeconfig(&options).await,
        None => {
            return kube::Config::infer().await.map_err(|error| {
                CommandError::hinted(
                    anyhow::anyhow!("found no hub to connect to: {error}"),
                    "name a kubeconfig with --kubeconfig, or set KUBECONFIG",
                )
            });
        }
    };
    Ok(config.context("cannot use the kubeconfig")?)
}
