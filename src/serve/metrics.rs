//! The metrics of a process: its shell's metrics, and the state of the fleet in the caches.

use std::fmt;

use api::addon::v1alpha1::ManagedClusterAddOn;
use api::gitops::v1alpha1::RolloutPolicy;
use controllers::hub::overview::{HeldObjects, Overview, WorkloadSummary};
use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use reconcile::{Query, Read, ReadErrorReason, View as _};

use super::addon_metrics;
use crate::shell::{Handle, now};

/// The prefix of all metric names.
const PREFIX: &str = "wheelwright";

/// Returns the metrics of an operator in the OpenMetrics text format. The fleet's metrics are included once the
/// leader has read its kinds. Only operators report whether they lead: an agent that did would hide that the
/// hub has no leader.
///
/// # Errors
/// Never in practice: writing to a string does not fail.
pub(super) fn of_operator(handle: &Handle) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix(PREFIX);
    register_build(&mut registry);
    handle.register_leader(&mut registry);
    handle.register_metrics(&mut registry);
    let caches = handle.caches();
    register_fleet(&mut registry, &Overview::read(&caches, now()));
    let addons = caches.list_readable::<ManagedClusterAddOn>(Query::ALL);
    addon_metrics::register(&mut registry, &addons.unwrap_or_default());
    let policies = caches.list_readable::<RolloutPolicy>(Query::ALL);
    addon_metrics::register_removals(&mut registry, &policies.unwrap_or_default());
    text(&registry)
}

/// Returns the metrics of an agent, or of a registration operator.
///
/// # Errors
/// Never in practice: writing to a string does not fail.
pub(super) fn of_agent(handle: &Handle) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix(PREFIX);
    register_build(&mut registry);
    handle.register_metrics(&mut registry);
    text(&registry)
}

fn text(registry: &Registry) -> Result<String, fmt::Error> {
    let mut text = String::new();
    encode(&mut text, registry)?;
    Ok(text)
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByVersion {
    version: &'static str,
}

/// The labels of a cluster's series. A Prometheus for several hubs distinguishes the hubs by the label
/// `cluster`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByManagedCluster {
    managed_cluster: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByAvailable {
    available: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByConfigRepo {
    config_repo: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByPlacement {
    placement: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByWorkload {
    workload: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByState {
    workload: String,
    state: &'static str,
}

fn count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn register_build(registry: &mut Registry) {
    let build = Family::<ByVersion, Gauge>::default();
    build.get_or_create(&ByVersion { version: env!("CARGO_PKG_VERSION") }).set(1);
    registry.register("build_info", "Always 1, with the version of the program", build);
}

/// Registers the state of a fleet, and whether it could be read.
fn register_fleet(registry: &mut Registry, overview: &Read<Overview>) {
    let is_unread = match overview {
        Ok(overview) => {
            register(registry, overview);
            false
        }
        // The controllers that read the fleet are disabled.
        Err(error) if error.reason == ReadErrorReason::NotWatched => return,
        Err(_) => true,
    };
    let unread = Gauge::<i64>::default();
    unread.set(is_unread.into());
    let help = "1 if the fleet cannot be read, so that its metrics are absent, else 0";
    registry.register("fleet_unread", help, unread);
}

/// Registers the state of a fleet.
fn register(registry: &mut Registry, overview: &Overview) {
    let Overview { repositories, clusters, placements, add_ons, replica_sets } = overview;
    let by_available = Family::<ByAvailable, Gauge>::default();
    by_available.get_or_create(&ByAvailable { available: "true" }).set(count(clusters.available));
    let away = clusters.total - clusters.available;
    by_available.get_or_create(&ByAvailable { available: "false" }).set(count(away));
    let unavailable = Family::<ByManagedCluster, Gauge>::default();
    for cluster in &clusters.troubled {
        unavailable.get_or_create(&ByManagedCluster { managed_cluster: cluster.name.clone() }).set(1);
    }
    let ready = Family::<ByConfigRepo, Gauge>::default();
    let held = Family::<ByConfigRepo, Gauge>::default();
    let unreported = Family::<ByConfigRepo, Gauge>::default();
    for repo in repositories {
        let labels = ByConfigRepo { config_repo: repo.name.clone() };
        ready.get_or_create(&labels).set(repo.ready.into());
        held.get_or_create(&labels).set(count(repo.held_deletions.as_ref().map_or(0, HeldObjects::total)));
        unreported.get_or_create(&labels).set((!repo.report_error.is_empty()).into());
    }
    let selected = Family::<ByPlacement, Gauge>::default();
    let satisfied = Family::<ByPlacement, Gauge>::default();
    for placement in placements {
        let labels = ByPlacement { placement: placement.name.clone() };
        selected.get_or_create(&labels).set(count(placement.selected));
        satisfied.get_or_create(&labels).set(placement.satisfied.into());
    }
    registry.register("clusters", "Clusters of the hub", by_available);
    let help = "1 for each cluster that is not available. Other clusters have no sample";
    registry.register("cluster_unavailable", help, unavailable);
    registry.register("config_repo_ready", "1 if the hub matches the repository, else 0", ready);
    registry.register("config_repo_deletions_held", "Deletions that wait for an approval", held);
    let help = "1 if the current state cannot be reported, else 0";
    registry.register("config_repo_report_failed", help, unreported);
    registry.register("placement_clusters", "Clusters that a placement selects", selected);
    registry.register(
        "placement_satisfied",
        "1 if a placement selects as many clusters as it requests, else 0",
        satisfied,
    );
    register_rollouts(registry, add_ons.iter().chain(replica_sets));
}

fn register_rollouts<'o>(registry: &mut Registry, workloads: impl Iterator<Item = &'o WorkloadSummary>) {
    let by_state = Family::<ByState, Gauge>::default();
    let held = Family::<ByWorkload, Gauge>::default();
    for workload in workloads {
        for cluster in workload.clusters() {
            let labels = ByState { workload: workload.name.clone(), state: cluster.state.word() };
            by_state.get_or_create(&labels).inc();
        }
        held.get_or_create(&ByWorkload { workload: workload.name.clone() }).set(count(workload.holds.len()));
    }
    let clusters = "Clusters of an add-on, or of a ManifestWorkReplicaSet as namespace/name, by their state in its rollout";
    registry.register("rollout_clusters", clusters, by_state);
    let holds = "Reasons why the rollouts of an add-on or a ManifestWorkReplicaSet do not continue";
    registry.register("rollout_holds", holds, held);
}

#[cfg(test)]
#[path = "tests/metrics.rs"]
mod tests;
