//! A candidate, which acquires, renews and releases the lease.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::PostParams;
use kube::{Api, Client};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::Leadership;
use super::leadership::Term;
use crate::clock::{Moment, now};
use object::hex;

/// The time limit for releasing the lease. After that, the next leader has to wait until the lease expires.
const RELEASE_WITHIN: Duration = Duration::from_secs(2);

/// The options of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionOptions {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// The identity of this candidate, unique among all candidates.
    pub identity: String,
    /// The time for which other candidates respect a lease that is not renewed.
    pub lease: Duration,
    /// The time for which a leader may write after sending its last renewal. It is shorter than `lease`, so that
    /// the leader stops before another one starts.
    pub renew_deadline: Duration,
    /// The time between two attempts.
    pub retry: Duration,
}

impl ElectionOptions {
    /// Returns options with 12 s, 8 s and 2 s, so that a leader that dies is replaced within 15 s: other
    /// candidates see its last renewal at most 2 s later, and respect it for 12 s. client-go uses 15 s, 10 s and 2
    /// s.
    ///
    /// As in client-go, the identity is the host with a random part, because two hosts may share a name and two
    /// pods a process ID.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, host: &str) -> Self {
        let mut random = [0; 8];
        // If the system has no randomness, the process ID is used.
        let filled = SystemRandom::new().fill(&mut random).is_ok();
        let suffix = if filled { hex(random) } else { std::process::id().to_string() };
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: format!("{host}_{suffix}"),
            lease: Duration::from_secs(12),
            renew_deadline: Duration::from_secs(8),
            retry: Duration::from_secs(2),
        }
    }
}

/// A candidate for leadership.
pub struct Election {
    api: Api<Lease>,
    options: ElectionOptions,
    /// The lease as last read, and when it last changed according to this process's clock.
    observed: Option<(Lease, Instant)>,
    prolong: watch::Sender<Term>,
    leadership: Leadership,
}

/// The result of an attempt.
enum Attempt {
    /// This candidate holds the lease; the renewal was sent at this time.
    Ours(Moment),
    /// Another candidate, with this identity, holds the lease.
    Others(String),
}

impl Election {
    /// Creates a candidate. The client should have a separate connection, so that renewals do not wait for other
    /// requests.
    pub fn new(client: Client, options: ElectionOptions) -> Self {
        let (prolong, leadership) = Leadership::new();
        Self {
            api: Api::namespaced(client, &options.namespace),
            options,
            observed: None,
            prolong,
            leadership,
        }
    }

    /// Returns the leadership, which shows until when this process may write.
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Waits until elected; returns false if `stop` is canceled first.
    pub async fn acquire(&mut self, stop: &CancellationToken) -> bool {
        info!(lease = %self.options.name, identity = self.options.identity, "waiting to be elected");
        let mut leader = String::new();
        loop {
            let limit = self.options.renew_deadline;
            match stop.run_until_cancelled(timeout(limit, self.attempt())).await {
                None => return false,
                Some(Ok(Ok(Attempt::Ours(sent)))) => {
                    self.extend(sent);
                    // A response that took the whole renew deadline gives no leadership.
                    if self.leadership.holds() {
                        info!("elected");
                        return true;
                    }
                }
                Some(Ok(Ok(Attempt::Others(holder)))) if holder == leader => {}
                Some(Ok(Ok(Attempt::Others(holder)))) => {
                    info!(holder, "another process leads; waiting for its lease to be released or to expire");
                    leader = holder;
                }
                Some(Ok(Err(error))) => warn!(%error, "cannot take part in the election"),
                Some(Err(_)) => warn!("cannot take part in the election: the API server does not respond"),
            }
            if stop.run_until_cancelled(sleep(self.wait())).await.is_none() {
                return false;
            }
        }
    }

    /// Renews the lease until `stop` is canceled or the leadership ends. Call [`release`](Self::release) after the
    /// last write.
    pub async fn renew(&mut self, stop: &CancellationToken) {
        loop {
            let until = self.leadership.until();
            let renewal = timeout_at(until, async {
                sleep(self.options.retry).await;
                // If a request hangs, there is time for another one.
                timeout(self.options.renew_deadline / 2, self.attempt()).await
            });
            match stop.run_until_cancelled(renewal).await {
                None => return,
                // While the machine was suspended, another candidate may have led and released the lease.
                Some(Ok(Ok(Ok(Attempt::Ours(sent))))) if self.leadership.holds() => self.extend(sent),
                Some(Ok(Ok(Ok(Attempt::Ours(_) | Attempt::Others(_))))) => break,
                Some(Ok(Ok(Err(error)))) => warn!(%error, "cannot renew the lease"),
                Some(Ok(Err(_))) => warn!("cannot renew the lease: the API server does not respond"),
                Some(Err(_)) => break,
            }
        }
        self.prolong.send_replace(Term::over());
        warn!("no longer the leader");
    }

    fn extend(&self, sent: Moment) {
        self.prolong.send_replace(Term { sent, lasts: self.options.renew_deadline });
    }

    /// Returns the time until the next attempt, which is earlier than usual if the lease of another candidate
    /// expires sooner.
    fn wait(&self) -> Duration {
        let expires = self.observed.as_ref().map(|(lease, since)| *since + self.respected(lease));
        let left =
            expires.map(|at| at.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero());
        left.map_or(self.options.retry, |left| left.min(self.options.retry))
    }

    /// Acquires or renews the lease if this candidate holds it, or if it is free or expired.
    async fn attempt(&mut self) -> Result<Attempt, kube::Error> {
        let current = self.api.get_opt(&self.options.name).await?;
        if let Some(lease) = current.clone().or_else(|| self.deleted()) {
            let version = |lease: &Lease| lease.metadata.resource_version.clone();
            if self.observed.as_ref().is_none_or(|(seen, _)| version(seen) != version(&lease)) {
                self.observed = Some((lease.clone(), Instant::now()));
            }
            let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
            let other = holder.filter(|holder| !holder.is_empty() && *holder != self.options.identity);
            if let Some(other) = other.filter(|_| !self.is_expired()) {
                return Ok(Attempt::Others(other.to_owned()));
            }
        }
        let (sent, claim) = (Moment::now(), self.claim(current.as_ref()));
        let params = PostParams::default();
        let written = match current {
            Some(_) => self.api.replace(&self.options.name, &params, &claim).await,
            None => self.api.create(&params, &claim).await,
        };
        self.observed = Some((written?, Instant::now()));
        Ok(Attempt::Ours(sent))
    }

    /// Returns the deleted lease, without a version. Its holder may not know about the deletion and still write,
    /// because it may have just renewed the lease.
    fn deleted(&self) -> Option<Lease> {
        let (mut lease, _) = self.observed.clone()?;
        lease.metadata.resource_version = None;
        Some(lease)
    }

    fn is_expired(&self) -> bool {
        self.observed.as_ref().is_some_and(|(lease, since)| since.elapsed() >= self.respected(lease))
    }

    /// Returns how long other candidates respect a lease: the duration set by its holder.
    fn respected(&self, lease: &Lease) -> Duration {
        let seconds = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
        seconds.and_then(|s| u64::try_from(s).ok()).map_or(self.options.lease, Duration::from_secs)
    }

    /// Returns the lease with this candidate as its holder.
    fn claim(&self, current: Option<&Lease>) -> Lease {
        let mut lease = current.cloned().unwrap_or_default();
        lease.metadata.name = Some(self.options.name.clone());
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        let now = MicroTime(now());
        if spec.holder_identity.as_deref() != Some(&self.options.identity) {
            spec.lease_transitions = Some(if current.is_some() {
                spec.lease_transitions.unwrap_or_default().saturating_add(1)
            } else {
                0
            });
            spec.acquire_time = Some(now.clone());
        }
        spec.holder_identity = Some(self.options.identity.clone());
        spec.lease_duration_seconds = i32::try_from(self.options.lease.as_secs()).ok();
        spec.renew_time = Some(now);
        lease
    }

    /// Releases the lease if this candidate still holds it, so that the next leader need not wait for it to
    /// expire. Gives up after two seconds without a response.
    pub async fn release(mut self) {
        self.prolong.send_replace(Term::over());
        let error = match timeout(RELEASE_WITHIN, self.free()).await {
            Ok(Ok(true)) => return info!("released the lease"),
            Ok(Ok(false)) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the API server does not respond".into(),
        };
        warn!(error, "cannot release the lease; the next leader must wait until it expires");
    }

    /// Removes this candidate from the lease; returns false if another one holds it. After a conflict, reads the
    /// lease again, because an interrupted renewal may have been stored.
    async fn free(&mut self) -> Result<bool, kube::Error> {
        let mut observed = self.observed.take().map(|(lease, _)| lease);
        // A deleted lease has no version, and an interrupted attempt may have created it again.
        if observed.as_ref().is_some_and(|lease| lease.metadata.resource_version.is_none()) {
            observed = self.api.get_opt(&self.options.name).await?;
        }
        while let Some(mut lease) = observed.take() {
            let is_ours =
                |spec: &&mut LeaseSpec| spec.holder_identity.as_ref() == Some(&self.options.identity);
            let Some(spec) = lease.spec.as_mut().filter(is_ours) else { break };
            spec.holder_identity = None;
            spec.lease_duration_seconds = Some(1);
            match self.api.replace(&self.options.name, &PostParams::default(), &lease).await {
                Err(kube::Error::Api(status)) if status.is_conflict() => {
                    observed = self.api.get_opt(&self.options.name).await?;
                }
                replaced => return replaced.map(|_| true),
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
#[path = "tests/candidate.rs"]
mod tests;
