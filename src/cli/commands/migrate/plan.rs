//! The plan of a migration: the decision of each placement if the cluster has the taint.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;

use super::tainted;
use crate::cli::commands::taint;
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::PlacementDecision;
use api::names::MIGRATE_TAINT;
use controllers::hub::placement::{explain, placement_of};
use engine::placement::explain::{Explanation, SchedulingState};
use object::Key;
use reconcile::{Caches, Delta, Query, Read, Site, View};

/// The effect of the taint on the decisions for a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MigrationPlan {
    pub(super) cluster: String,
    /// The key of the taint.
    pub(super) taint: String,
    /// True if the migration has completed.
    pub(super) done: bool,
    /// The placements that currently select the cluster, sorted by namespace and name.
    pub(super) placements: Vec<PlacementPlan>,
}

/// The effect of the taint on the decision of a placement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PlacementPlan {
    /// The placement as `namespace/name`.
    pub(super) placement: String,
    /// The reason why the placement keeps the cluster; `None` if it leaves the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stays: Option<String>,
    /// The time for which the placement tolerates the taint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) leaves_after_seconds: Option<i64>,
    /// The clusters that the placement selects instead.
    pub(super) to: Vec<String>,
    /// The number of clusters that the placement then selects.
    pub(super) selected: usize,
    /// The number of clusters that the placement requests; `None` if it requests all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) wanted: Option<usize>,
    /// The clusters that the placement currently selects.
    pub(super) before: BTreeSet<String>,
}

impl MigrationPlan {
    /// Plans the migration; returns `None` if the cluster does not exist.
    pub(super) fn read(name: &str, caches: &Caches, now: Timestamp) -> Read<Option<Self>> {
        let Some(caches) = with_taint(name, caches, now)? else { return Ok(None) };
        let decisions = caches.list::<PlacementDecision>(Query::ALL)?;
        let of_cluster = decisions.iter().filter(|decision| clusters(decision).any(|other| other == name));
        let placements: BTreeSet<Key> = of_cluster.filter_map(|decision| placement_of(decision)).collect();
        let planned = placements.iter().map(|placement| PlacementPlan::read(placement, name, &caches, now));
        let placements = planned.collect::<Read<Vec<_>>>()?.into_iter().flatten().collect();
        Ok(Some(Self { cluster: name.into(), taint: MIGRATE_TAINT.into(), done: false, placements }))
    }

    /// Returns the placements that leave the cluster.
    pub(super) fn leaving(&self) -> impl Iterator<Item = &PlacementPlan> {
        self.placements.iter().filter(|planned| planned.stays.is_none())
    }
}

pub(super) fn clusters(decision: &PlacementDecision) -> impl Iterator<Item = &str> {
    let decisions = decision.status.iter().flat_map(|status| &status.decisions);
    decisions.map(|decision| decision.cluster_name.as_str())
}

/// Returns the caches with the taint on the cluster. An existing taint keeps its time.
fn with_taint(name: &str, caches: &Caches, now: Timestamp) -> Read<Option<Caches>> {
    let Some(cluster) = caches.get::<ManagedCluster>(&Key::cluster(name))? else { return Ok(None) };
    let mut cluster = ManagedCluster::clone(&cluster);
    // Only the removal of a taint can fail.
    let _ = taint::apply(&mut cluster.spec.taints, &tainted());
    for taint in cluster.spec.taints.iter_mut().filter(|taint| taint.key == MIGRATE_TAINT) {
        taint.time_added.get_or_insert(Time(now));
    }
    // The caches ignore an object with the same resource version.
    cluster.metadata.resource_version = None;
    let mut caches = caches.clone();
    caches.apply(Site::Hub, Delta::Seen(cluster));
    Ok(Some(caches))
}

impl PlacementPlan {
    fn read(placement: &Key, cluster: &str, caches: &Caches, now: Timestamp) -> Read<Option<Self>> {
        let Some(explanation) = explain(placement, caches, now)? else { return Ok(None) };
        let before = names(&explanation, |_, is_decided| is_decided);
        let stays = |reason: String| Self {
            placement: placement.to_string(),
            stays: Some(reason),
            selected: before.len(),
            before: before.clone(),
            ..Self::default()
        };
        if let Some(reason) = &explanation.disabled {
            return Ok(Some(stays(format!("the placement is not scheduled: {reason}"))));
        }
        if let Some(reason) = &explanation.error {
            return Ok(Some(stays(format!("the placement cannot be followed: {reason}"))));
        }
        let found = explanation.clusters.iter().find(|explained| explained.cluster_name == cluster);
        let (explanation, leaves_after) = match found {
            Some(found) if found.state == SchedulingState::Selected => {
                let Some(until) = found.tolerated_until else {
                    return Ok(Some(stays("the placement tolerates the taint".into())));
                };
                let Some(then) = explain(placement, caches, until)? else { return Ok(None) };
                (then, Some(until.duration_since(now).as_secs()))
            }
            Some(_) | None => (explanation, None),
        };
        let after = names(&explanation, |state, _| {
            matches!(state, SchedulingState::Selected | SchedulingState::Arriving)
        });
        Ok(Some(Self {
            placement: placement.to_string(),
            stays: None,
            leaves_after_seconds: leaves_after,
            to: after.difference(&before).cloned().collect(),
            selected: after.len(),
            wanted: explanation.number_of_clusters,
            before,
        }))
    }
}

/// Returns the names of the clusters that match `is`, given the state and true if a decision names the cluster.
fn names(explanation: &Explanation, is: fn(SchedulingState, bool) -> bool) -> BTreeSet<String> {
    let clusters = explanation.clusters.iter();
    let found = clusters.filter(|explained| is(explained.state, explained.decision.is_some()));
    found.map(|explained| explained.cluster_name.clone()).collect()
}
