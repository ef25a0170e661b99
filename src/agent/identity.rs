//! The agent's identity: the stored one if it is usable, otherwise a new one from the hub.

use kube::Api;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::credentials::Credentials;
use super::error::JoinError;
use super::hub::{BootstrapHub, bootstrap_changes};
use super::{AgentOptions, join, spoke, switch};
use crate::shell::now;
use api::cluster::v1::ManagedCluster;

/// Returns the stored identity, or a new one if the stored one is not usable.
pub(super) async fn obtain(
    options: &AgentOptions,
    hub: &BootstrapHub,
    refused: &str,
    stop: &CancellationToken,
) -> Result<Credentials, JoinError> {
    let stored = spoke::load(options).await?.filter(|stored| stored.cluster() == options.cluster);
    let named = options.agent_id.clone().or_else(|| stored.as_ref().map(|stored| stored.agent.clone()));
    let mut usable = stored.filter(|stored| {
        hub.has_issued(stored, &options.cluster)
            && stored.certificate != refused
            && named.as_ref().is_none_or(|agent| *agent == stored.agent)
    });
    if let Some(stored) =
        usable.as_mut().filter(|stored| options.registers() && !hub.is_named_by(&stored.kubeconfig))
    {
        info!(cluster = options.cluster, "the hub's CA or proxy has changed; keeping the identity");
        stored.kubeconfig = hub.stored_kubeconfig()?;
        spoke::store(options, stored, hub).await?;
    }
    if let Some(stored) = usable
        && (stored.expires() > now() || is_taken(hub, &stored).await)
    {
        return Ok(stored);
    }
    if !options.registers() {
        return Err(JoinError::NoIdentity(options.secret.clone()));
    }
    join_anew(options, hub, named.as_deref(), stop).await
}

/// Returns true if a hub accepts an identity that has expired according to this machine's clock, which may be
/// ahead. A hub that does not respond counts as accepting, so that the controllers keep running.
async fn is_taken(hub: &BootstrapHub, identity: &Credentials) -> bool {
    match hub.client_with(identity).await {
        Ok(client) => !is_refused(&client, identity.cluster()).await,
        Err(_) => false,
    }
}

/// Returns true if the hub rejects a client's identity.
pub(super) async fn is_refused(client: &kube::Client, cluster: &str) -> bool {
    let clusters: Api<ManagedCluster> = Api::all(client.clone());
    let answer = clusters.get_metadata_opt(cluster).await;
    matches!(answer, Err(kube::Error::Api(status)) if status.code == 401)
}

/// Joins the hub with the bootstrap identity, and stores the new identity.
pub(super) async fn join_anew(
    options: &AgentOptions,
    hub: &BootstrapHub,
    agent: Option<&str>,
    stop: &CancellationToken,
) -> Result<Credentials, JoinError> {
    info!(cluster = options.cluster, hub = hub.server, "joining the hub");
    let client = hub.bootstrap_client().await?;
    let subject = join::AgentName { cluster: &options.cluster, agent, seconds: options.certificate_seconds };
    // If the bootstrap kubeconfig changes or the hub is lost, give up: this attempt may never succeed.
    let credentials = tokio::select! {
        credentials = join::join(&client, options, subject, stop) => credentials?,
        () = bootstrap_changes(&options.bootstrap, hub) => return Err(JoinError::Moved),
        reason = switch::lost_in_join(options, &client) => return Err(JoinError::Lost(reason)),
    };
    spoke::store(options, &credentials, hub).await?;
    Ok(credentials)
}

#[cfg(test)]
#[path = "tests/identity.rs"]
mod tests;
