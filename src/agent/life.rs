//! The tasks that run next to the controllers while an identity is in use, and the events that end its use.
//!
//! The controllers run all the time: if a hub takes an hour to approve a renewal, the agent keeps renewing the
//! lease during that hour.

use std::time::Duration;

use api::cluster::v1::ManagedCluster;
use api::cluster::v1alpha1::ClusterClaim;
use api::condition::Observation;
use api::names::KUBE_CLIENT_SIGNER;
use controllers::agent_identity::claim_name;
use jiff::Timestamp;
use kube::Api;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::credentials::Credentials;
use super::error::JoinError;
use super::hub::{BootstrapHub, bootstrap_changes};
use super::identity::{is_refused, join_anew};
use super::wait::Wait;
use super::{AgentOptions, addon_status, join, spoke, switch};
use crate::shell::{Handle, now, with_causes};
use object::{Key, Metadata};
use reconcile::View as _;

/// The first wait after a failed renewal or join. It doubles with each failure.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait between two renewals, each of which creates a request.
const LONGEST_WAIT_TO_RENEW: Duration = Duration::from_mins(10);
/// The longest wait between two attempts to join with an expired certificate.
const LONGEST_WAIT_TO_JOIN: Duration = Duration::from_secs(30);
/// The longest time between two clock readings while waiting for a certificate to expire.
const LONGEST_WAIT_FOR_CLOCK: Duration = Duration::from_mins(1);
/// The interval between reads of the stored identity and the claim.
const READ_PERIOD: Duration = Duration::from_secs(10);
/// The interval between checks that the hub accepts the identity, and the number of rejections in a row that
/// end its use.
const CHECK_PERIOD: Duration = Duration::from_secs(20);
const REFUSALS: u32 = 3;
/// The interval between requests to the hub for the cluster, and between cache reads for its deletion, which
/// may take a few seconds.
const ASK_PERIOD: Duration = Duration::from_mins(1);
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// An identity that is in use.
pub(super) struct IdentityUse<'a> {
    pub(super) options: &'a AgentOptions,
    pub(super) hub: &'a BootstrapHub,
    pub(super) client: &'a kube::Client,
    pub(super) credentials: &'a Credentials,
    /// The value of its claim; `None` for an agent that may not write claims.
    pub(super) claim: Option<String>,
    /// The shell that runs under the identity.
    pub(super) shell: Option<&'a Handle>,
}

/// The reason why an identity is no longer used.
pub(super) enum End {
    /// There is a new identity, the bootstrap kubeconfig has changed, or the agent is stopping.
    Over,
    /// The hub rejects this certificate.
    Refused(String),
    /// The agent moves to another hub, for this reason.
    Lost(String),
}

impl IdentityUse<'_> {
    /// Renews the identity when that is due. Returns when the identity can no longer be used.
    pub(super) async fn end(&self, stop: &CancellationToken) -> End {
        tokio::select! {
            () = self.replaced_in_time(stop) => End::Over,
            () = bootstrap_changes(&self.options.bootstrap, self.hub) => {
                info!(cluster = self.options.cluster, "the bootstrap kubeconfig has changed");
                End::Over
            }
            reason = switch::lost(self.options, self.shell) => End::Lost(reason),
            () = self.keep_reporting() => End::Over,
            () = self.refused() => End::Refused(self.credentials.certificate.clone()),
            () = self.unclaimed() => {
                warn!(cluster = self.options.cluster, "another client has changed or deleted the agent's ClusterClaim");
                End::Over
            }
        }
    }

    /// Waits for a new certificate. The controllers keep running, even with an expired certificate, because the
    /// hub may be unreachable.
    async fn replaced_in_time(&self, stop: &CancellationToken) {
        tokio::select! {
            () = self.renewed(stop) => {}
            () = self.rejoined(stop) => {}
        }
    }

    /// Waits until the agent has rejoined, because its certificate has expired or the hub has lost the cluster.
    async fn rejoined(&self, stop: &CancellationToken) {
        let cluster = &self.options.cluster;
        tokio::select! {
            () = self.expired() => warn!(cluster, "the certificate has expired"),
            () = self.forgotten() => warn!(cluster, "the hub no longer has the cluster; rejoining"),
        }
        if !self.options.registers() {
            return self.replaced().await;
        }
        let mut wait = Wait::new(FIRST_WAIT, LONGEST_WAIT_TO_JOIN);
        let agent = Some(self.credentials.agent.as_str());
        while let Err(error) = join_anew(self.options, self.hub, agent, stop).await {
            warn!(cluster, error = with_causes(&error), "cannot rejoin the hub; retrying");
            sleep(wait.take()).await;
        }
    }

    /// Waits until the certificate has expired and the hub rejects it. The hub decides, because this machine's
    /// clock may be ahead.
    async fn expired(&self) {
        until(self.credentials.expires()).await;
        while !is_refused(self.client, &self.options.cluster).await {
            sleep(CHECK_PERIOD).await;
        }
    }

    /// Waits for a new certificate.
    async fn renewed(&self, stop: &CancellationToken) {
        if !self.options.registers() {
            return self.replaced().await;
        }
        until(self.credentials.renew_at()).await;
        info!(cluster = self.options.cluster, "renewing the certificate");
        let mut wait = Wait::new(FIRST_WAIT, LONGEST_WAIT_TO_RENEW);
        let is_waiting = || self.report(Some(addon_status::waiting_for(KUBE_CLIENT_SIGNER)));
        while let Err(error) = addon_status::reporting(self.renew(stop), is_waiting).await {
            warn!(
                cluster = self.options.cluster,
                error = with_causes(&error),
                "cannot renew the certificate; retrying"
            );
            self.report(addon_status::not_rotated(&error)).await;
            sleep(wait.take()).await;
        }
    }

    /// Reports the validity of the certificate to the hub, unless its renewal is due. Never returns.
    async fn keep_reporting(&self) {
        let clusters: Api<ManagedCluster> = Api::all(self.client.clone());
        let mut wait = Wait::new(FIRST_WAIT, LONGEST_WAIT_TO_RENEW);
        while self.options.registers() && self.credentials.renew_at() > now() {
            let rotated = addon_status::rotated(self.credentials);
            let Err(error) = addon_status::report(&clusters, &self.options.cluster, rotated).await else {
                break;
            };
            debug!(
                error = with_causes(&error),
                "cannot report the certificate's validity on the hub; retrying"
            );
            sleep(wait.take()).await;
        }
        std::future::pending().await
    }

    /// Reports to the hub why there is no new certificate.
    async fn report(&self, observed: Option<Observation>) {
        let clusters: Api<ManagedCluster> = Api::all(self.client.clone());
        let Some(observed) = observed else { return };
        let cluster = &self.options.cluster;
        if let Err(error) = addon_status::report(&clusters, cluster, observed).await {
            warn!(cluster, error = with_causes(&error), "cannot report the pending renewal on the hub");
        }
    }

    /// Waits until the registration agent has stored another certificate. Read errors do not count.
    async fn replaced(&self) {
        loop {
            sleep(READ_PERIOD).await;
            let stored = spoke::load(self.options).await.ok().flatten();
            if stored.is_some_and(|stored| stored.certificate != self.credentials.certificate) {
                return;
            }
        }
    }

    /// Waits until the claim on the spoke is gone or belongs to another agent, or another agent of the hub has
    /// an earlier claim. Without our claim, that agent would treat our works as left over from an earlier
    /// agent.
    async fn unclaimed(&self) {
        let Some(value) = &self.claim else { return std::future::pending().await };
        let name = claim_name(&self.options.secret);
        loop {
            sleep(READ_PERIOD).await;
            let Ok(Some(claims)) = spoke::claims(self.options).await else { continue };
            let is_own = |claim: &ClusterClaim| claim.name() == name && claim.spec.value == *value;
            if !claims.iter().any(is_own) || spoke::earlier(&claims, self.options, self.hub).is_some() {
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

    /// Waits until the hub has rejected the identity several times in a row. Rejections of an expired identity
    /// do not count: the agent is already rejoining, and ending this use would drop that request.
    async fn refused(&self) {
        let mut refusals = 0;
        while refusals < REFUSALS {
            sleep(CHECK_PERIOD).await;
            let refuses = is_refused(self.client, &self.options.cluster).await;
            refusals = if refuses && now() < self.credentials.expires() { refusals + 1 } else { 0 };
        }
    }

    /// Waits until the hub has lost the cluster, for example after a restore: the identity is valid, but gives
    /// no access. See docs/hazards-clusters.md#hub-older-than-cluster.
    async fn forgotten(&self) {
        let key = Key::cluster(&self.options.cluster);
        let clusters: Api<ManagedCluster> = Api::all(self.client.clone());
        let (mut answers, mut asked) = (Answers::default(), Instant::now());
        loop {
            sleep(LOOK_PERIOD).await;
            let cached =
                self.shell.and_then(|shell| shell.caches().get::<ManagedCluster>(&key).ok().flatten());
            answers.look(cached.as_deref());
            if asked.elapsed() < ASK_PERIOD {
                continue;
            }
            asked = Instant::now();
            answers.add(&clusters.get_metadata_opt(&key.name).await);
            if answers.are_of_a_restored_hub()
                && let Ok(bootstrap) = self.hub.bootstrap_client().await
                && is_absent(&bootstrap, &key.name).await
            {
                return;
            }
        }
    }
}

/// The hub's answers about the cluster.
#[derive(Default)]
struct Answers {
    /// The number of answers in a row that the cluster is missing, or that the agent may not read it.
    missing: u32,
    /// True if the cluster was being deleted when it was last seen.
    is_deleted: bool,
}

impl Answers {
    /// Updates `is_deleted` from the cached cluster, if there is one.
    fn look(&mut self, cached: Option<&ManagedCluster>) {
        self.is_deleted = cached.map_or(self.is_deleted, Metadata::is_terminating);
    }

    fn add<T>(&mut self, answer: &Result<Option<T>, kube::Error>) {
        let is_missing = match answer {
            Ok(found) => found.is_none(),
            Err(kube::Error::Api(status)) => status.code == 403,
            Err(_) => false,
        };
        self.missing = if is_missing { self.missing + 1 } else { 0 };
    }

    /// Returns true if the agent should check for the cluster under the bootstrap identity. A deleted cluster
    /// does not rejoin.
    fn are_of_a_restored_hub(&self) -> bool {
        self.missing >= REFUSALS && !self.is_deleted
    }
}

/// Returns true if the hub answers that it does not have the cluster.
async fn is_absent(bootstrap: &kube::Client, cluster: &str) -> bool {
    let clusters: Api<ManagedCluster> = Api::all(bootstrap.clone());
    clusters.get_metadata_opt(cluster).await.is_ok_and(|found| found.is_none())
}

/// Waits until a time, which may be in the past.
async fn until(at: Timestamp) {
    until_by(now, at).await;
}

/// Waits until a clock shows a time. Reads the clock every minute, because it may be adjusted during the wait.
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
