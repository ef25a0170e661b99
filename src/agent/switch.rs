//! Several hubs, one at a time: when the agent leaves its hub, and where it goes (OCM's gate MultipleHubs).

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::time::{Instant, sleep, timeout};
use tracing::info;

use super::error::JoinError;
use super::hub::BootstrapHub;
use super::{AgentOptions, spoke};
use crate::shell::{Handle, is_away, now};
use api::cluster::v1::ManagedCluster;
use api::condition::Conditions as _;
use api::names::CLUSTER_LEASE;
use api::names::cluster_conditions::HUB_ACCEPTED;
use object::Key;
use reconcile::View as _;

/// The time for which a hub may be unreachable, OCM's default.
pub(super) const HUB_TIMEOUT: Duration = Duration::from_secs(600);
/// The interval between checks.
const PERIOD: Duration = Duration::from_secs(5);
const DENIED: &str = "the hub has denied the cluster";

/// Waits until the hub has denied the cluster, or the lease has not been renewed for too long. Never returns if
/// there is no other hub.
pub(super) async fn lost(options: &AgentOptions, shell: Option<&Handle>) -> String {
    let (Some(shell), false) = (shell, options.other_hubs.is_empty()) else {
        return std::future::pending().await;
    };
    let (mut contact, mut renewed) = (Instant::now(), None);
    loop {
        sleep(PERIOD.min(options.hub_timeout)).await;
        let caches = shell.caches();
        let cluster = caches.get::<ManagedCluster>(&Key::cluster(&options.cluster)).ok().flatten();
        if cluster.is_some_and(|cluster| is_denied(&cluster)) {
            return DENIED.into();
        }
        let lease = caches.get::<Lease>(&Key::namespaced(&options.cluster, CLUSTER_LEASE)).ok().flatten();
        let time = lease.and_then(|lease| lease.spec.clone()?.renew_time).map(|time| time.0);
        // Count from when this process saw the renewal, because the machine's clock may be adjusted.
        if time != renewed && time.is_none_or(|time| time <= now()) {
            (contact, renewed) = (Instant::now(), time);
        }
        if contact.elapsed() >= options.hub_timeout {
            return format!("the lease was not renewed for {} s", options.hub_timeout.as_secs());
        }
    }
}

/// Waits, during a certificate request, until the hub has denied the cluster or has not responded for too long.
/// Never returns if there is no other hub. A hub on which nobody approves the cluster still answers.
pub(super) async fn lost_in_join(options: &AgentOptions, bootstrap: &kube::Client) -> String {
    if options.other_hubs.is_empty() {
        return std::future::pending().await;
    }
    let period = PERIOD.min(options.hub_timeout);
    let clusters = Api::<ManagedCluster>::all(bootstrap.clone());
    let mut contact = Instant::now();
    loop {
        sleep(period).await;
        match timeout(period, clusters.get_opt(&options.cluster)).await {
            Ok(Ok(Some(cluster))) if is_denied(&cluster) => return DENIED.into(),
            Ok(Err(error)) if is_away(&error) => {}
            Ok(_) => contact = Instant::now(),
            Err(_) => {}
        }
        if contact.elapsed() >= options.hub_timeout {
            return format!("the hub did not respond for {} s", options.hub_timeout.as_secs());
        }
    }
}

/// Returns true if the hub denies a cluster. A cluster that was never accepted has no condition.
fn is_denied(cluster: &ManagedCluster) -> bool {
    !cluster.spec.hub_accepts_client && cluster.condition(HUB_ACCEPTED).is_some()
}

/// Selects the hub of the stored identity, if it is one of the agent's hubs.
///
/// # Errors
/// Fails if the agent has several hubs, and its identity cannot be read.
pub(super) async fn to_stored(options: &mut AgentOptions) -> Result<(), JoinError> {
    if options.other_hubs.is_empty() {
        return Ok(());
    }
    let Some(stored) = spoke::load(options).await? else { return Ok(()) };
    for _ in 0..=options.other_hubs.len() {
        if BootstrapHub::read(&options.bootstrap).is_ok_and(|hub| hub.has_name_of(&stored.kubeconfig)) {
            break;
        }
        rotate(options);
    }
    Ok(())
}

/// Moves the agent to the first hub that accepts the cluster, starting with the current hub. If none accepts
/// it, moves to the next hub.
pub(super) async fn to_next(options: &mut AgentOptions) {
    for _ in 0..options.other_hubs.len() {
        let hub = BootstrapHub::read(&options.bootstrap).ok();
        if let Some(hub) = hub
            && takes(&hub, &options.cluster).await
        {
            return;
        }
        rotate(options);
        info!(cluster = options.cluster, "trying another hub");
    }
}

fn rotate(options: &mut AgentOptions) {
    if !options.other_hubs.is_empty() {
        let next = options.other_hubs.remove(0);
        options.other_hubs.push(std::mem::replace(&mut options.bootstrap, next));
    }
}

/// Returns true if a hub accepts the bootstrap identity, and has not denied the cluster.
async fn takes(hub: &BootstrapHub, cluster: &str) -> bool {
    let Ok(client) = hub.bootstrap_client().await else { return false };
    match Api::<ManagedCluster>::all(client).get_opt(cluster).await {
        Ok(found) => found.is_none_or(|found| found.spec.hub_accepts_client),
        Err(_) => false,
    }
}
