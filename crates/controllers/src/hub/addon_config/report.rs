//! What a report tells of an add-on on its clusters.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::fleet::{AddOnFleets, ReportedCluster};
use super::input::AddOnInput;
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use engine::report::{self, Cluster};
use engine::rollout::ClusterState;
use object::Key;
use reconcile::{Read, View};

/// An add-on on its clusters.
pub(in crate::hub) struct ReportedAddOn {
    /// All clusters that have it or get it, by name.
    pub(in crate::hub) clusters: Vec<Arc<Cluster>>,
    /// When the state of a cluster ends without an event.
    pub(in crate::hub) recheck: Option<Timestamp>,
}

/// Reads an add-on for a report; `None` if it does not exist. Only the clusters are read again of which the
/// add-on or the state is another than before.
pub(in crate::hub) fn report(name: &str, view: &impl View, now: Timestamp) -> Read<Option<ReportedAddOn>> {
    let Some(cma) = view.get::<ClusterManagementAddOn>(&Key::cluster(name))? else { return Ok(None) };
    let mut input = AddOnInput::read(cma, view)?;
    let decided = input.decide(view, now)?;
    let held = std::mem::take(&mut input.fleet.reported);
    let reported = read_changed(held, &input.states(&decided, now), &input.fleet.addons);
    let clusters = reported.iter().map(|read| Arc::clone(&read.cluster)).collect();
    input.fleet.reported = reported;
    input.keep(view)?;
    let decisions = decided.rollouts.iter().filter_map(|rollout| rollout.decision.as_ref().ok());
    let recheck = decisions.filter_map(|decision| decision.recheck).min();
    Ok(Some(ReportedAddOn { clusters, recheck }))
}

/// Returns when the conditions of an add-on on a cluster last changed.
pub(in crate::hub) fn last_change(add_on: &str, view: &impl View) -> Read<Option<Timestamp>> {
    let mut fleet = view.index(|fleets: &mut AddOnFleets| fleets.take(add_on))?;
    fleet.read(add_on, view)?;
    let last = fleet.addons.values().filter_map(|addon| report::last_change(addon)).max();
    view.index(|fleets: &mut AddOnFleets| fleets.keep(add_on, fleet))?;
    Ok(last)
}

/// Reads the clusters that are not as they were.
fn read_changed(
    held: Vec<ReportedCluster>,
    states: &BTreeMap<&str, Cow<'_, ClusterState>>,
    addons: &BTreeMap<String, Arc<ManagedClusterAddOn>>,
) -> Vec<ReportedCluster> {
    let (mut held, mut addons) = (held.into_iter().peekable(), addons.iter().peekable());
    let mut reported = Vec::with_capacity(states.len());
    for (name, state) in states {
        while held.next_if(|held| held.cluster.name.as_str() < *name).is_some() {}
        while addons.next_if(|(cluster, _)| cluster.as_str() < *name).is_some() {}
        let addon = addons.next_if(|(cluster, _)| cluster.as_str() == *name).map(|(_, addon)| addon);
        let is_same = |held: &ReportedCluster| {
            held.cluster.name == *name
                && held.cluster.state == **state
                && held.addon.as_ref().map(Arc::as_ptr) == addon.map(Arc::as_ptr)
        };
        reported.push(held.next_if(is_same).unwrap_or_else(|| ReportedCluster {
            addon: addon.cloned(),
            cluster: Arc::new(Cluster::read(name, state, addon.map(Arc::as_ref))),
        }));
    }
    reported
}
