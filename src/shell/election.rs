//! Leader election by Lease, by the rules of client-go: writes compare the resource version, expiry is judged by this process's
//! own monotonic clock and never by the time another one wrote, and a leader stops before its lease can be taken.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::clock::now;

/// How an operator takes part in an election. The times are those of client-go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionOptions {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Who we are: unique among all candidates.
    pub identity: String,
    /// How long a lease that is not renewed is still respected.
    pub lease: Duration,
    /// How long a leader keeps trying to renew before it stops; shorter than `lease`, so that it stops before another starts.
    pub renew_deadline: Duration,
    /// Time between two attempts.
    pub retry: Duration,
}

impl ElectionOptions {
    /// The times of client-go: 15 s, 10 s, 2 s.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            lease: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// A candidate.
pub struct Election {
    api: Api<Lease>,
    options: ElectionOptions,
    /// The lease as last read, and when (by our clock) it last changed.
    observed: Option<(Lease, Instant)>,
}

impl Election {
    /// Becomes a candidate.
    pub fn new(client: Client, options: ElectionOptions) -> Self {
        Self { api: Api::namespaced(client, &options.namespace), options, observed: None }
    }

    /// Waits until elected; `false` when `stop` came first.
    pub async fn win(&mut self, stop: &CancellationToken) -> bool {
        info!(lease = %self.options.name, "waiting to be elected");
        while !stop.is_cancelled() {
            match self.attempt().await {
                Ok(true) => return true,
                Ok(false) => {}
                Err(error) => warn!(%error, "cannot take part in the election"),
            }
            stop.run_until_cancelled(sleep(self.options.retry)).await;
        }
        false
    }

    /// Keeps leading until `stop`, or until the lease could be another's soon. Whoever stops leading [releases](Self::release) the
    /// lease after its last write.
    pub async fn keep(&mut self, stop: &CancellationToken) {
        let mut renewed = Instant::now();
        while renewed.elapsed() < self.options.renew_deadline {
            if stop.run_until_cancelled(sleep(self.options.retry)).await.is_none() {
                return;
            }
            match self.attempt().await {
                Ok(true) => renewed = Instant::now(),
                Ok(false) => break,
                Err(error) => warn!(%error, "cannot renew the lease"),
            }
        }
        warn!("no longer the leader");
    }

    /// Takes or renews the lease if it is ours, free or expired.
    async fn attempt(&mut self) -> Result<bool, kube::Error> {
        let limit = self.options.renew_deadline;
        timeout(limit, self.try_lease()).await.map_err(|e| kube::Error::Service(e.into()))?
    }

    async fn try_lease(&mut self) -> Result<bool, kube::Error> {
        let Some(current) = self.api.get_opt(&self.options.name).await? else {
            let created = self.api.create(&PostParams::default(), &self.claim(None)).await;
            return self.settle(created);
        };
        if self
            .observed
            .as_ref()
            .is_none_or(|(seen, _)| seen.metadata.resource_version != current.metadata.resource_version)
        {
            self.observed = Some((current.clone(), Instant::now()));
        }
        let holder =
            current.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default();
        let expired =
            self.observed.as_ref().is_some_and(|(lease, since)| since.elapsed() >= self.respected(lease));
        if !holder.is_empty() && holder != self.options.identity && !expired {
            return Ok(false);
        }
        let replaced =
            self.api.replace(&self.options.name, &PostParams::default(), &self.claim(Some(&current))).await;
        self.settle(replaced)
    }

    /// How long a lease is respected: as long as its holder said.
    fn respected(&self, lease: &Lease) -> Duration {
        let seconds = lease
            .spec
            .as_ref()
            .and_then(|spec| spec.lease_duration_seconds)
            .and_then(|s| u64::try_from(s).ok());
        seconds.map_or(self.options.lease, Duration::from_secs)
    }

    fn settle(&mut self, written: Result<Lease, kube::Error>) -> Result<bool, kube::Error> {
        match written {
            Ok(lease) => {
                self.observed = Some((lease, Instant::now()));
                Ok(true)
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The lease with us as its holder.
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

    /// Frees the lease if it is still ours, so that the next leader need not wait for it to expire.
    pub async fn release(self) {
        let Some((mut lease, _)) = self.observed else { return };
        let ours =
            lease.spec.as_mut().filter(|spec| spec.holder_identity.as_ref() == Some(&self.options.identity));
        let Some(spec) = ours else { return };
        spec.holder_identity = None;
        spec.lease_duration_seconds = Some(1);
        if let Err(error) = self.api.replace(&self.options.name, &PostParams::default(), &lease).await {
            warn!(%error, "cannot give the lease back; the next leader waits until it expires");
        }
    }
}
