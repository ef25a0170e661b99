//! Reads an add-on on its clusters for a report.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::fleet::{AddOnFleets, ReportedCluster};
use super::input::AddOnInput;
use crate::placement_rollout::PlacementRollout;
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::condition::Conditions as _;
use engine::report::{self, WorkloadCluster};
use engine::rollout::ClusterState;
use object::Key;
use reconcile::{Read, View};

/// An add-on on its clusters.
pub(in crate::hub) struct ReportedAddOn {
    /// All clusters that have or get the add-on, sorted by name.
    pub(in crate::hub) clusters: Vec<Arc<WorkloadCluster>>,
    /// The time at which the state of a cluster changes without an event.
    pub(in crate::hub) recheck: Option<Timestamp>,
}

/// Reads an add-on for a report; `None` if it does not exist. Only clusters whose add-on or state changed are read
/// again.
pub(in crate::hub) fn report(name: &str, view: &impl View, now: Timestamp) -> Read<Option<ReportedAddOn>> {
    let Some(cma) = view.get::<ClusterManagementAddOn>(&Key::cluster(name))? else { return Ok(None) };
    let mut input = AddOnInput::read(cma, view, now)?;
    let decided = input.decide(view, now)?;
    let before = std::mem::take(&mut input.fleet.reported);
    let reported = read_changed(before, &input.states(&decided, now), &input.fleet.addons);
    let clusters = reported.iter().map(|read| Arc::clone(&read.cluster)).collect();
    input.fleet.reported = reported;
    input.keep(view)?;
    let recheck = decided.rollouts.iter().filter_map(PlacementRollout::recheck).min();
    Ok(Some(ReportedAddOn { clusters, recheck }))
}

/// Returns when the conditions of an add-on last changed on any cluster.
pub(in crate::hub) fn last_change(add_on: &str, view: &impl View, now: Timestamp) -> Read<Option<Timestamp>> {
    let mut fleet = view.index(|fleets: &mut AddOnFleets| fleets.take(&Key::cluster(add_on)))?;
    fleet.read(add_on, view)?;
    let conditions = fleet.addons.values().flat_map(|addon| addon.conditions());
    let last = report::last_change(conditions, now);
    view.index(|fleets: &mut AddOnFleets| fleets.keep(Key::cluster(add_on), fleet))?;
    Ok(last)
}

/// Reads the clusters that changed.
fn read_changed(
    before: Vec<ReportedCluster>,
    states: &BTreeMap<&str, Cow<'_, ClusterState>>,
    addons: &BTreeMap<String, Arc<ManagedClusterAddOn>>,
) -> Vec<ReportedCluster> {
    let (mut before, mut addons) = (before.into_iter().peekable(), addons.iter().peekable());
    let mut reported = Vec::with_capacity(states.len());
    for (name, state) in states {
        while before.next_if(|before| before.cluster.name.as_str() < *name).is_some() {}
        while addons.next_if(|(cluster, _)| cluster.as_str() < *name).is_some() {}
        let addon = addons.next_if(|(cluster, _)| cluster.as_str() == *name).map(|(_, addon)| addon);
        let is_same = |before: &ReportedCluster| {
            before.cluster.name == *name
                && before.cluster.state == **state
                && before.addon.as_ref().map(Arc::as_ptr) == addon.map(Arc::as_ptr)
        };
        reported.push(before.next_if(is_same).unwrap_or_else(|| ReportedCluster {
            addon: addon.cloned(),
            cluster: Arc::new(WorkloadCluster::read(name, state, addon.map(Arc::as_ref))),
        }));
    }
    reported
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn addon(cluster: &str, hash: &str) -> Arc<ManagedClusterAddOn> {
        let desired = json!({"name": "t", "specHash": hash});
        let references =
            json!([{"group": "g", "resource": "addontemplates", "name": "t", "desiredConfig": desired}]);
        let addon: Value = json!({
            "metadata": {"namespace": cluster, "name": "a"}, "spec": {}, "status": {"configReferences": references},
        });
        Arc::new(serde_json::from_value(addon).unwrap())
    }

    /// Each round compares the result with a read from scratch.
    #[test]
    fn a_cluster_is_read_again_when_its_add_on_or_state_changes() {
        let (done, timed_out) = (ClusterState::Done, ClusterState::TimedOut);
        let rounds = [
            vec![("a", "1", &done), ("b", "1", &done), ("d", "1", &done)],
            vec![("a", "1", &done), ("b", "1", &timed_out), ("c", "2", &done), ("d", "2", &done)],
            vec![("b", "1", &timed_out), ("d", "2", &done)],
        ];
        let mut addons: BTreeMap<String, Arc<ManagedClusterAddOn>> = BTreeMap::new();
        let mut cached = Vec::new();
        let mut reused = Vec::new();
        for round in rounds {
            let before = std::mem::take(&mut addons);
            for (name, hash, _) in &round {
                let new = addon(name, hash);
                let same = before.get(*name).filter(|cached| ***cached == *new).cloned();
                addons.insert((*name).to_owned(), same.unwrap_or(new));
            }
            let states = round.iter().map(|(name, _, state)| (*name, Cow::Borrowed(*state))).collect();
            let old: Vec<Arc<WorkloadCluster>> =
                cached.iter().map(|cached: &ReportedCluster| Arc::clone(&cached.cluster)).collect();
            let (reported, anew) =
                (read_changed(cached, &states, &addons), read_changed(Vec::new(), &states, &addons));
            let clusters = |read: &[ReportedCluster]| {
                read.iter().map(|read| (*read.cluster).clone()).collect::<Vec<_>>()
            };
            assert_eq!(clusters(&reported), clusters(&anew));
            let is_old = |read: &&ReportedCluster| old.iter().any(|old| Arc::ptr_eq(old, &read.cluster));
            reused.push(reported.iter().filter(is_old).count());
            cached = reported;
        }
        assert_eq!(reused, [0, 1, 2], "the others are as they were");
    }
}
