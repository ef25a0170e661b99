//! The identity of the agent: the kept one while that is usable, else a new one from the hub.

use tokio_util::sync::CancellationToken;
use tracing::info;

use super::credentials::Credentials;
use super::error::JoinError;
use super::hub::{Hub, bootstrap_changes};
use super::{AgentOptions, join, spoke, switch};
use crate::shell::{self, now};

/// Returns the stored identity, or a new one if that is not usable.
pub(super) async fn obtain(
    options: &AgentOptions,
    hub: &Hub,
    refused: &str,
    stop: &CancellationToken,
) -> Result<Credentials, JoinError> {
    let held = spoke::load(options).await?.filter(|held| held.cluster() == options.cluster);
    let named = options.agent_id.clone().or_else(|| held.as_ref().map(|held| held.agent.clone()));
    let mut held = held.filter(|held| {
        hub.has_issued(held, &options.cluster)
            && held.certificate != refused
            && named.as_ref().is_none_or(|agent| *agent == held.agent)
    });
    if let Some(held) = held.as_mut().filter(|held| options.registers() && !hub.is_named_by(&held.kubeconfig))
    {
        info!(
            cluster = options.cluster,
            "the CA of the hub or the proxy before it has changed; the identity stays"
        );
        held.kubeconfig = hub.stored_kubeconfig()?;
        spoke::store(options, held, hub).await?;
    }
    if let Some(held) = held.as_ref().filter(|held| held.expires() > now()) {
        return Ok(held.clone());
    }
    if !options.registers() {
        return Err(JoinError::NoIdentity(options.secret.clone()));
    }
    match (join_anew(options, hub, named.as_deref(), stop).await, held) {
        // With an expired identity, the controllers go on with the works while the agent tries to join.
        (Err(JoinError::Api { source, .. }), Some(held)) if shell::is_away(&source) => Ok(held),
        // It has expired by the clock of this machine, which may be wrong.
        (Err(JoinError::TooManyRequests(_)), Some(held)) => Ok(held),
        (joined, _) => joined,
    }
}

/// Joins the hub under the bootstrap identity, and keeps the new one.
pub(super) async fn join_anew(
    options: &AgentOptions,
    hub: &Hub,
    agent: Option<&str>,
    stop: &CancellationToken,
) -> Result<Credentials, JoinError> {
    info!(cluster = options.cluster, hub = hub.server, "joining the hub");
    let client = hub.bootstrap_client().await?;
    let subject = join::AgentName { cluster: &options.cluster, agent, seconds: options.certificate_seconds };
    // A changed bootstrap kubeconfig or a lost hub ends the attempt, because this one may never succeed.
    let credentials = tokio::select! {
        credentials = join::join(&client, options, subject, stop) => credentials?,
        () = bootstrap_changes(&options.bootstrap, hub) => return Err(JoinError::Moved),
        why = switch::lost_in_join(options, &client) => return Err(JoinError::Lost(why)),
    };
    spoke::store(options, &credentials, hub).await?;
    Ok(credentials)
}
