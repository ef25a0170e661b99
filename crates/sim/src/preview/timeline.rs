//! Records when each cluster is assigned another configuration of an add-on or another template of a set, and
//! when it runs it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::fleet::{Workload, decisions};
use super::results::Batch;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::work::v1::ManifestWork;
use engine::addon::config::address;
use engine::addon::config_refs;
use engine::replica_set::{self, SuccessNeeds, WorkRecord};
use engine::rollout::input::Report;
use object::{Key, Metadata as _, Object};
use store::{Entry, ResourcePath, Store};

/// The add-ons and sets of clusters over time.
pub(super) struct Timeline {
    start: Timestamp,
    /// The written add-ons and works, by resource and key.
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
    pub(super) fn begin(start: Timestamp) -> Self {
        Self { start, on_clusters: BTreeMap::new(), starts: Vec::new() }
    }

    /// Takes the writes of an instant. `before` is the hub at the start: only the state of written objects is
    /// read.
    pub(super) fn observe(&mut self, entries: &[Entry], before: &Store, hub: &Store, now: Timestamp) {
        let after = now.duration_since(self.start).as_secs();
        let mut groups: Option<BTreeMap<String, String>> = None;
        for entry in
            entries.iter().filter(|entry| [ADD_ONS, WORKS].contains(&entry.resource.resource.as_str()))
        {
            let id = (entry.resource.resource.clone(), entry.key.clone());
            let Some((workload, state)) = read(&id.0, entry.object.as_deref()) else {
                self.on_clusters.insert(id, OnCluster::default());
                continue;
            };
            let cluster = entry.key.namespace.clone();
            let last = self.on_clusters.get(&id).cloned().unwrap_or_else(|| OnCluster::at_start(before, &id));
            self.on_clusters.insert(id, state.clone());
            if state.assigned.is_some() && state.assigned != last.assigned && !state.has_arrived {
                let groups = groups.get_or_insert_with(|| decisions(hub).into_values().flatten().collect());
                let group = groups.get(&cluster).cloned().unwrap_or_default();
                self.starts.push(Start { workload, cluster, after, arrived: None, group });
            } else if state.has_arrived && !last.has_arrived {
                let is = |start: &&mut Start| start.workload == workload && start.cluster == cluster;
                if let Some(start) = self.starts.iter_mut().rev().find(is) {
                    start.arrived = Some(after);
                }
            }
        }
    }

    /// Returns the batches of each add-on and set: the clusters that start at the same moment.
    pub(super) fn batches(&self) -> BTreeMap<Workload, Vec<Batch>> {
        let mut starts: BTreeMap<(&Workload, i64), Vec<&Start>> = BTreeMap::new();
        for start in &self.starts {
            starts.entry((&start.workload, start.after)).or_default().push(start);
        }
        let mut batches: BTreeMap<Workload, Vec<Batch>> = BTreeMap::new();
        for ((workload, after), starts) in starts {
            let groups: BTreeSet<&String> = starts.iter().map(|start| &start.group).collect();
            let clusters: BTreeSet<&String> = starts.iter().map(|start| &start.cluster).collect();
            let arrived: Option<Vec<i64>> = starts.iter().map(|start| start.arrived).collect();
            batches.entry(workload.clone()).or_default().push(Batch {
                after,
                groups: groups.into_iter().filter(|group| !group.is_empty()).cloned().collect(),
                clusters: clusters.into_iter().cloned().collect(),
                arrived_after: arrived.and_then(|arrived| arrived.into_iter().max()),
            });
        }
        batches
    }
}

/// Returns the state of an add-on or of a work of a set; `None` if it is gone, or is neither.
fn read(resource: &str, object: Option<&Object>) -> Option<(Workload, OnCluster)> {
    let object = object?;
    if resource == ADD_ONS {
        let add_on: ManagedClusterAddOn = object.to_typed().ok()?;
        return Some((Workload::AddOn(add_on.name().to_owned()), OnCluster::of(&add_on)));
    }
    let set = Workload::of_work(object)?;
    Some((set, OnCluster::of_work(&object.to_typed().ok()?)))
}

impl OnCluster {
    fn at_start(before: &Store, (resource, key): &(String, Key)) -> Self {
        let path = match resource.as_str() {
            ADD_ONS => ResourcePath::of::<ManagedClusterAddOn>(key),
            _ => ResourcePath::of::<ManifestWork>(key),
        };
        let object = before.get(&path).ok();
        read(resource, object.as_deref()).map(|(_, state)| state).unwrap_or_default()
    }

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
        let report = replica_set::report(work, SuccessNeeds::Applied);
        Self { has_arrived: report == Report::Succeeded, assigned }
    }
}
