//! Records when each cluster is assigned another configuration of an add-on or another template of a set, and
//! when it runs it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::fleet::{Workload, all, decisions};
use super::results::Wave;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::work::v1::ManifestWork;
use engine::addon::config::address;
use engine::addon::config_refs;
use engine::replica_set::{self, WorkRecord};
use engine::rollout::input::Report;
use object::{Key, Metadata as _};
use store::{Entry, Store};

/// The add-ons and sets of clusters over time.
pub(super) struct Timeline {
    start: Timestamp,
    /// By the resource and key of the add-on or work.
    on_clusters: BTreeMap<(String, Key), OnCluster>,
    starts: Vec<Start>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct OnCluster {
    /// The configurations or the template that it is assigned.
    assigned: Option<String>,
    has_arrived: bool,
}

/// A cluster is assigned other configurations or another template.
struct Start {
    workload: Workload,
    cluster: String,
    after: i64,
    /// When they were applied on the cluster.
    arrived: Option<i64>,
    group: String,
}

const ADD_ONS: &str = "managedclusteraddons";
const WORKS: &str = "manifestworks";

impl Timeline {
    pub(super) fn begin(hub: &Store, start: Timestamp) -> Self {
        let add_ons = all::<ManagedClusterAddOn>(hub);
        let add_ons =
            add_ons.iter().map(|add_on| ((ADD_ONS.to_owned(), Key::of(add_on)), OnCluster::of(add_on)));
        let works = all::<ManifestWork>(hub);
        let works = works.iter().filter(|work| Workload::of_work(*work).is_some());
        let works = works.map(|work| ((WORKS.to_owned(), Key::of(work)), OnCluster::of_work(work)));
        Self { start, on_clusters: add_ons.chain(works).collect(), starts: Vec::new() }
    }

    /// Takes the writes of an instant.
    pub(super) fn observe(&mut self, entries: &[Entry], hub: &Store, now: Timestamp) {
        let after = now.duration_since(self.start).as_secs();
        let mut groups: Option<BTreeMap<String, String>> = None;
        for entry in
            entries.iter().filter(|entry| [ADD_ONS, WORKS].contains(&entry.resource.resource.as_str()))
        {
            let id = (entry.resource.resource.clone(), entry.key.clone());
            let Some((workload, state)) = read(entry) else {
                self.on_clusters.remove(&id);
                continue;
            };
            let cluster = entry.key.namespace.clone();
            let before = self.on_clusters.insert(id, state.clone()).unwrap_or_default();
            if state.assigned.is_some() && state.assigned != before.assigned && !state.has_arrived {
                let groups = groups.get_or_insert_with(|| decisions(hub).into_values().flatten().collect());
                let group = groups.get(&cluster).cloned().unwrap_or_default();
                self.starts.push(Start { workload, cluster, after, arrived: None, group });
            } else if state.has_arrived && !before.has_arrived {
                let is = |start: &&mut Start| start.workload == workload && start.cluster == cluster;
                if let Some(start) = self.starts.iter_mut().rev().find(is) {
                    start.arrived = Some(after);
                }
            }
        }
    }

    /// Returns the waves of each add-on and set: the clusters that start at the same moment.
    pub(super) fn waves(&self) -> BTreeMap<Workload, Vec<Wave>> {
        let mut starts: BTreeMap<(&Workload, i64), Vec<&Start>> = BTreeMap::new();
        for start in &self.starts {
            starts.entry((&start.workload, start.after)).or_default().push(start);
        }
        let mut waves: BTreeMap<Workload, Vec<Wave>> = BTreeMap::new();
        for ((workload, after), starts) in starts {
            let groups: BTreeSet<&String> = starts.iter().map(|start| &start.group).collect();
            let clusters: BTreeSet<&String> = starts.iter().map(|start| &start.cluster).collect();
            let arrived: Option<Vec<i64>> = starts.iter().map(|start| start.arrived).collect();
            waves.entry(workload.clone()).or_default().push(Wave {
                after,
                groups: groups.into_iter().filter(|group| !group.is_empty()).cloned().collect(),
                clusters: clusters.into_iter().cloned().collect(),
                arrived_after: arrived.and_then(|arrived| arrived.into_iter().max()),
            });
        }
        waves
    }
}

/// Returns the state of an add-on or of a work of a set after a write; `None` if it is gone, or is neither.
fn read(entry: &Entry) -> Option<(Workload, OnCluster)> {
    let object = entry.object.as_ref()?;
    if entry.resource.resource == ADD_ONS {
        let add_on: ManagedClusterAddOn = object.to_typed().ok()?;
        return Some((Workload::AddOn(add_on.name().to_owned()), OnCluster::of(&add_on)));
    }
    let work: ManifestWork = object.to_typed().ok()?;
    Some((Workload::of_work(&work)?, OnCluster::of_work(&work)))
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

    fn of_work(work: &ManifestWork) -> Self {
        let assigned = WorkRecord::read(work).template.map(|hash| hash.0);
        Self { has_arrived: replica_set::report(work, true) == Report::Succeeded, assigned }
    }
}
