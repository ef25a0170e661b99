//! Records when each cluster is assigned another configuration of an add-on, and when it runs it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::fleet::{all, decisions};
use super::results::Wave;
use api::addon::v1alpha1::ManagedClusterAddOn;
use engine::addon::config::address;
use engine::addon::config_refs;
use object::{Key, Metadata as _};
use store::{Entry, Store};

/// The add-ons of clusters over time.
pub(super) struct Timeline {
    start: Timestamp,
    add_ons: BTreeMap<Key, OnCluster>,
    starts: Vec<Start>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct OnCluster {
    /// The configurations that it is assigned.
    assigned: Option<String>,
    has_arrived: bool,
}

/// A cluster is assigned other configurations.
struct Start {
    add_on: String,
    cluster: String,
    after: i64,
    /// When they were applied on the cluster.
    arrived: Option<i64>,
    group: String,
}

impl Timeline {
    pub(super) fn begin(hub: &Store, start: Timestamp) -> Self {
        let add_ons = all::<ManagedClusterAddOn>(hub);
        let add_ons = add_ons.iter().map(|add_on| (Key::of(add_on), OnCluster::of(add_on)));
        Self { start, add_ons: add_ons.collect(), starts: Vec::new() }
    }

    /// Takes the writes of an instant.
    pub(super) fn observe(&mut self, entries: &[Entry], hub: &Store, now: Timestamp) {
        let after = now.duration_since(self.start).as_secs();
        let entries = entries.iter().filter(|entry| entry.resource.resource == "managedclusteraddons");
        let mut groups: Option<BTreeMap<String, String>> = None;
        for Entry { key, object, .. } in entries {
            let Some(add_on) = object.as_ref().and_then(|object| object.to_typed().ok()) else {
                self.add_ons.remove(key);
                continue;
            };
            let state = OnCluster::of(&add_on);
            let before = self.add_ons.insert(key.clone(), state.clone()).unwrap_or_default();
            if state.assigned.is_some() && state.assigned != before.assigned && !state.has_arrived {
                let groups = groups.get_or_insert_with(|| decisions(hub).into_values().flatten().collect());
                self.starts.push(Start {
                    add_on: add_on.name().to_owned(),
                    cluster: add_on.namespace().to_owned(),
                    after,
                    arrived: None,
                    group: groups.get(add_on.namespace()).cloned().unwrap_or_default(),
                });
            } else if state.has_arrived && !before.has_arrived {
                let is =
                    |start: &&mut Start| start.add_on == add_on.name() && start.cluster == add_on.namespace();
                if let Some(start) = self.starts.iter_mut().rev().find(is) {
                    start.arrived = Some(after);
                }
            }
        }
    }

    /// Returns the waves of each add-on: the clusters that start at the same moment.
    pub(super) fn waves(&self) -> BTreeMap<String, Vec<Wave>> {
        let mut starts: BTreeMap<(&str, i64), Vec<&Start>> = BTreeMap::new();
        for start in &self.starts {
            starts.entry((&start.add_on, start.after)).or_default().push(start);
        }
        let mut waves: BTreeMap<String, Vec<Wave>> = BTreeMap::new();
        for ((add_on, after), starts) in starts {
            let groups: BTreeSet<&String> = starts.iter().map(|start| &start.group).collect();
            let clusters: BTreeSet<&String> = starts.iter().map(|start| &start.cluster).collect();
            let arrived: Option<Vec<i64>> = starts.iter().map(|start| start.arrived).collect();
            waves.entry(add_on.to_owned()).or_default().push(Wave {
                after,
                groups: groups.into_iter().filter(|group| !group.is_empty()).cloned().collect(),
                clusters: clusters.into_iter().cloned().collect(),
                arrived_after: arrived.and_then(|arrived| arrived.into_iter().max()),
            });
        }
        waves
    }
}

impl OnCluster {
    fn of(add_on: &ManagedClusterAddOn) -> Self {
        let references = add_on.status.as_ref().map(|status| status.config_references.as_slice());
        let references = references.unwrap_or_default();
        let assigned = config_refs::desired(references).filter(|_| !references.is_empty());
        let assigned = assigned.map(|configs| address(&configs));
        let applied = config_refs::applied(references).map(|configs| address(&configs));
        Self { has_arrived: assigned.is_some() && assigned == applied, assigned }
    }
}
