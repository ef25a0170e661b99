//! The connection of a command to an API server.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::config::{Kubeconfig, KubeconfigError};
use tokio::time::timeout;
use tracing::warn;

use super::CommandError;
use crate::shell;
use object::text::first_line;

/// The time for which a process that can run without its hub waits for an answer at startup. It is shorter than
/// the 30 seconds after which a kubelet kills a process that does not serve its health.
pub(super) const ANSWER: Duration = Duration::from_secs(5);

/// The help of `--kubeconfig` for commands that connect to a managed cluster.
pub(super) const CLUSTER_KUBECONFIG: &str =
    "Kubeconfig of the cluster. Default: `KUBECONFIG`, `~/.kube/config`, or the service account of the pod";

/// The hub that a command connects to.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct HubArgs {
    /// Kubeconfig of the hub. Default: `KUBECONFIG`, `~/.kube/config`, or the service account of the pod.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context in the kubeconfig. Default: the current context.
    #[arg(long)]
    context: Option<String>,
}

impl HubArgs {
    /// Connects to the hub.
    pub(super) async fn connect(&self) -> Result<kube::Client, CommandError> {
        connect(self.kubeconfig.as_deref(), self.context.as_deref()).await
    }

    /// Connects to the hub for a process that serves its health and runs until stopped. If the API server does not
    /// answer yet, only logs a warning: all users of the client retry.
    ///
    /// # Errors
    /// Fails if the kubeconfig is invalid, or the API server rejects the credentials.
    pub(super) async fn connect_or_wait(&self) -> Result<kube::Client, CommandError> {
        let config = self.config().await?;
        let url = config.cluster_url.clone();
        let client = shell::client(config).context("cannot use the kubeconfig")?;
        match timeout(ANSWER, client.apiserver_version()).await {
            Ok(Err(error)) if is_refused(&error) => return Err(unreachable(&url, &error)),
            Ok(Err(error)) => {
                warn!(hub = %url, error = %innermost(&error), "the API server does not respond yet")
            }
            Err(_) => warn!(hub = %url, "the API server does not respond yet"),
            Ok(Ok(_)) => {}
        }
        Ok(client)
    }

    /// Returns true if the command line names a kubeconfig or a context.
    pub(super) fn is_named(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    /// Returns the client config for the hub.
    pub(super) async fn config(&self) -> Result<kube::Config, CommandError> {
        config(self.kubeconfig.as_deref(), self.context.as_deref()).await
    }
}

/// The first minor version of Kubernetes with ValidatingAdmissionPolicies in v1. The charts have the same minimum.
pub(super) const OLDEST_MINOR: u32 = 30;

/// Returns true if an API server is older than Wheelwright requires. Some providers append a plus to the minor
/// version.
pub(super) fn is_too_old(version: &Info) -> bool {
    let minor: String = version.minor.chars().take_while(char::is_ascii_digit).collect();
    minor.parse().is_ok_and(|minor: u32| minor < OLDEST_MINOR)
}

/// Returns an error for a cluster on which an installation would fail halfway.
pub(super) async fn check_version(client: &kube::Client) -> Result<(), CommandError> {
    let version = client.apiserver_version().await?;
    if !is_too_old(&version) {
        return Ok(());
    }
    let found = &version.git_version;
    let error = anyhow::anyhow!(
        "the cluster runs Kubernetes {found}, and Wheelwright needs 1.{OLDEST_MINOR} or later"
    );
    Err(CommandError::hinted(error, "upgrade the cluster first; the helm charts refuse this version too"))
}

/// Returns true if the API server is an embedded hub, which runs no pods.
pub(super) async fn is_embedded(client: &kube::Client) -> Result<bool, kube::Error> {
    Ok(client.apiserver_version().await?.git_version.ends_with("+wheelwright"))
}

/// Connects to the API server of a kubeconfig, and checks that it answers.
///
/// # Errors
/// Fails if the kubeconfig is invalid, the API server does not respond, or it rejects the credentials.
pub(super) async fn connect(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<kube::Client, CommandError> {
    answering(config(kubeconfig, context).await?).await
}

/// Connects to an API server, and checks that it answers.
///
/// # Errors
/// Fails if the API server does not respond, or rejects the credentials.
pub(super) async fn answering(config: kube::Config) -> Result<kube::Client, CommandError> {
    let url = config.cluster_url.clone();
    let client = shell::client(config).context("cannot use the kubeconfig")?;
    match client.apiserver_version().await {
        Ok(_) => Ok(client),
        Err(error) => Err(unreachable(&url, &error)),
    }
}

/// Returns true if the API server rejects the credentials.
fn is_refused(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if [401, 403].contains(&status.code))
}

/// Returns the error for an API server that is unreachable or rejects the credentials.
fn unreachable(url: &http::Uri, error: &kube::Error) -> CommandError {
    match error {
        kube::Error::Api(_) => CommandError::hinted(
            anyhow::anyhow!("{url} refuses the credentials: {}", shell::message(error)),
            "check that the kubeconfig is for this hub and that its credentials have not expired",
        ),
        error => CommandError::hinted(
            anyhow::anyhow!("cannot reach {url}: {}", cause(error)),
            "check the address and the certificate authority in the kubeconfig, and that the API server is running",
        ),
    }
}

/// Returns the client config for an API server.
///
/// # Errors
/// Fails if the kubeconfig is invalid.
pub(super) async fn config(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<kube::Config, CommandError> {
    shell::config(kubeconfig, context).await.map_err(|error| unusable(kubeconfig, &error))
}

/// Checks that a kubeconfig file is valid. The error does not show its content.
pub(super) fn readable(path: &Path) -> Result<(), CommandError> {
    shell::read_kubeconfig(path).map(drop).map_err(|error| unusable(Some(path), &error))
}

/// Parses a bootstrap kubeconfig. The error does not show its content.
pub(super) fn parse(bootstrap: &str) -> Result<Kubeconfig, CommandError> {
    shell::parse_kubeconfig(bootstrap).map_err(|error| {
        let error = anyhow::anyhow!("cannot use the kubeconfig: {}", first_line(&error.to_string()));
        CommandError::hinted(error, "wheelwright get token --output kubeconfig creates one for agents")
    })
}

/// Returns the error for an unusable kubeconfig, without its content.
fn unusable(path: Option<&Path>, error: &KubeconfigError) -> CommandError {
    const CONTEXTS: &str =
        "`kubectl config get-contexts` lists the contexts of a kubeconfig, and --context chooses one";
    let other = match path {
        Some(_) => {
            "name another file, or rewrite this one, for example with `kubectl config view --raw --minify`"
        }
        None => "name a kubeconfig with --kubeconfig, or set KUBECONFIG",
    };
    let name =
        path.map_or_else(|| "the kubeconfig".to_owned(), |path| format!("the kubeconfig {}", path.display()));
    let (message, hint) = match error {
        KubeconfigError::ReadConfig(error, path) => {
            (format!("cannot read the kubeconfig {}: {error}", path.display()), other)
        }
        KubeconfigError::CurrentContextNotSet => (format!("{name} has no current context"), CONTEXTS),
        KubeconfigError::LoadContext(context) => (format!("{name} has no context {context}"), CONTEXTS),
        error => (format!("cannot use {name}: {}", first_line(&error.to_string())), other),
    };
    CommandError::hinted(anyhow::anyhow!(message), hint)
}

/// Describes the cause of an error.
fn cause(error: &dyn Error) -> String {
    match innermost(error).to_string().as_str() {
        // Tokio's message for a timeout.
        "deadline has elapsed" => "it does not respond".into(),
        words => words.into(),
    }
}

/// Returns the innermost cause of an error, without the client's layers.
fn innermost(error: &dyn Error) -> &dyn Error {
    error.source().map_or(error, innermost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_kubeconfig_that_cannot_be_used_is_named_with_the_way_out_and_without_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hub.kubeconfig");
        let check = async |content: Option<&str>, context: Option<&str>, message: &str, hint: &str| {
            if let Some(content) = content {
                std::fs::write(&path, content).unwrap();
            }
            let error = config(Some(&path), context).await.unwrap_err();
            let (shown, advice) = (format!("{:#}", error.error), error.hint.unwrap());
            let expected = message.replace("PATH", &path.display().to_string());
            assert!(shown.starts_with(&expected) && advice.contains(hint), "{shown}; {advice}");
            assert!(!shown.contains("s3cret") && !shown.contains('\n'), "{shown}");
        };
        check(None, None, "cannot read the kubeconfig PATH: No such file", "name another file").await;
        check(
            Some("users: [{user: {token: s3cret"),
            None,
            "cannot use the kubeconfig PATH: failed",
            "name another file",
        )
        .await;
        check(Some("kind: Config"), None, "the kubeconfig PATH has no current context", "--context").await;
        check(Some("kind: Config"), Some("prod"), "the kubeconfig PATH has no context prod", "--context")
            .await;
        let broken = "users: [{user: {token: s3cret";
        std::fs::write(&path, broken).unwrap();
        for error in [readable(&path).unwrap_err(), parse(broken).unwrap_err()] {
            let shown = format!("{:#}", error.error);
            assert!(!shown.contains("s3cret") && !shown.contains('\n'), "{shown}");
        }
    }
}
