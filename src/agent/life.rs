//! The tasks beside the controllers while an identity is in use, and the events that end its use.
//!
//! The controllers run all the time: if a hub takes an hour to approve a renewal, the agent renews the lease
//! for that hour.

use std::time::Duration;

use api::cluster::v1::ManagedCluster;
use api::cluster::v1alpha1::ClusterClaim;
use api::names::AGENT_CLAIM;
use controllers::agent_identity::Identity;
use jiff::Timestamp;
use kube::Api;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::hub::{Bootstrap, Hub};
use super::join::{self, Credentials, JoinError};
use super::wait::Wait;
use super::{AgentOptions, join_anew, spoke, switch};
use crate::shell::{Handle, now};
use object::text::with_causes;

/// First wait after a renewal or an attempt to join that failed; it doubles with each failure.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Longest wait between two renewals: each makes a new request.
const LONGEST_WAIT_TO_RENEW: Duration = Duration::from_mins(10);
/// Longest wait between two attempts to join with an expired certificate.
const LONGEST_WAIT_TO_JOIN: Duration = Duration::from_secs(30);
/// Longest time between two readings of the clock that a certificate ends by.
const LONGEST_WAIT_FOR_CLOCK: Duration = Duration::from_mins(1);
/// How often the bootstrap kubeconfig is read. The kubelet takes up to a minute to show a changed Secret to a
/// pod.
const READ_PERIOD: Duration = Duration::from_secs(10);
/// Interval of the checks whether the hub knows the identity, and the number of refusals in a row that end
/// its use.
const CHECK_PERIOD: Duration = Duration::from_secs(20);
const REFUSALS: u32 = 3;

/// An identity that is in use.
pub(super) struct IdentityUse<'a> {
    pub(super) options: &'a AgentOptions,
    pub(super) hub: &'a Hub,
    pub(super) client: &'a kube::Client,
    pub(super) credentials: &'a Credentials,
    /// The shell that runs under it.
    pub(super) shell: Option<&'a Handle>,
}

/// Why an identity is no longer used.
pub(super) enum End {
    /// There is a new one, or the bootstrap kubeconfig has changed, or the agent stops.
    Over,
    /// The hub refuses this certificate.
    Refused(String),
    /// The agent goes to another hub, for this reason.
    Lost(String),
}

impl IdentityUse<'_> {
    /// Renews the identity when that is due; returns when it cannot be used any more.
    pub(super) async fn end(&self, stop: &CancellationToken) -> End {
        tokio::select! {
            () = self.replaced_in_time(stop) => End::Over,
            () = bootstrap_changes(&self.options.bootstrap, self.hub) => {
                info!(cluster = self.options.cluster, "the bootstrap kubeconfig has changed");
                End::Over
            }
            why = switch::lost(self.options, self.shell) => End::Lost(why),
            () = self.refused() => End::Refused(self.credentials.certificate.clone()),
            () = self.unclaimed() => {
                warn!(cluster = self.options.cluster, "the ClusterClaim of the agent is not as written");
                End::Over
            }
        }
    }

    /// Returns when there is a new certificate. The controllers go on meanwhile, even with an expired
    /// certificate, because the hub may be away.
    async fn replaced_in_time(&self, stop: &CancellationToken) {
        tokio::select! {
            () = self.renewed(stop) => {}
            () = self.rejoined(stop) => {}
        }
    }

    /// Returns when the agent has joined anew, because its certificate has expired.
    async fn rejoined(&self, stop: &CancellationToken) {
        until(self.credentials.expires()).await;
        let cluster = &self.options.cluster;
        warn!(cluster, "the certificate has expired");
        if !self.options.registers() {
            return self.replaced().await;
        }
        let mut wait = Wait::new(FIRST_WAIT, LONGEST_WAIT_TO_JOIN);
        let agent = Some(self.credentials.agent.as_str());
        while let Err(error) = join_anew(self.options, self.hub, agent, stop).await {
            warn!(cluster, error = with_causes(&error), "cannot join the hub again yet");
            sleep(wait.take()).await;
        }
    }

    /// Returns when there is a new certificate.
    async fn renewed(&self, stop: &CancellationToken) {
        if !self.options.registers() {
            return self.replaced().await;
        }
        until(self.credentials.renew_at()).await;
        info!(cluster = self.options.cluster, "renewing the certificate");
        let mut wait = Wait::new(FIRST_WAIT, LONGEST_WAIT_TO_RENEW);
        while let Err(error) = self.renew(stop).await {
            warn!(
                cluster = self.options.cluster,
                error = with_causes(&error),
                "cannot renew the certificate yet"
            );
            sleep(wait.take()).await;
        }
    }

    /// Returns when the registration agent has kept another certificate. A secret that cannot be read now
    /// does not count.
    async fn replaced(&self) {
        loop {
            sleep(READ_PERIOD).await;
            let kept = spoke::load(self.options).await.ok().flatten();
            if kept.is_some_and(|kept| kept.certificate != self.credentials.certificate) {
                return;
            }
        }
    }

    /// Returns when the claim on the spoke is gone or of somebody else. The controllers know the identity by
    /// it, and would do nothing without it while the lease goes on.
    async fn unclaimed(&self) {
        let AgentOptions { cluster, spoke, .. } = self.options;
        let (agent_id, hub_hash) = (self.credentials.agent.clone(), self.hub.hash());
        let value = Identity { cluster: cluster.clone(), agent_id, hub_hash }.value();
        let claims: Api<ClusterClaim> = Api::all(spoke.clone());
        loop {
            sleep(READ_PERIOD).await;
            if let Ok(held) = claims.get_opt(AGENT_CLAIM).await
                && held.is_none_or(|held| held.spec.value != value)
            {
                return;
            }
        }
    }

    async fn renew(&self, stop: &CancellationToken) -> Result<(), JoinError> {
        let agent = Some(self.credentials.agent.as_str());
        let AgentOptions { cluster, certificate_seconds: seconds, .. } = self.options;
        let subject = join::AgentName { cluster, agent, seconds: *seconds };
        let new = join::request(self.client, subject, stop).await?;
        spoke::store(self.options, &new, self.hub).await
    }

    /// Returns when the hub has refused the identity several times in a row.
    async fn refused(&self) {
        let clusters: Api<ManagedCluster> = Api::all(self.client.clone());
        let mut refusals = 0;
        while refusals < REFUSALS {
            sleep(CHECK_PERIOD).await;
            match clusters.get_metadata_opt(&self.options.cluster).await {
                Err(kube::Error::Api(status)) if status.code == 401 => refusals += 1,
                Ok(_) | Err(_) => refusals = 0,
            }
        }
    }
}

/// Returns when the bootstrap kubeconfig has another content. One that cannot be read now does not count.
pub(super) async fn bootstrap_changes(bootstrap: &Bootstrap, hub: &Hub) {
    loop {
        sleep(READ_PERIOD).await;
        if Hub::read(bootstrap).is_ok_and(|read| !read.is_same(hub)) {
            return;
        }
    }
}

/// Waits until a time, which may be in the past.
async fn until(at: Timestamp) {
    until_by(now, at).await;
}

/// Waits until a clock shows a time. It is read every minute, because it may be set while the agent waits.
async fn until_by(now: impl Fn() -> Timestamp, at: Timestamp) {
    while let Ok(left) = Duration::try_from(now().duration_until(at))
        && !left.is_zero()
    {
        sleep(left.min(LONGEST_WAIT_FOR_CLOCK)).await;
    }
}

#[cfg(test)]
#[path = "tests/life.rs"]
pub(super) mod tests;
