//! Records when each cluster gets an add-on, a new add-on configuration or a new template of a set, when it is
//! running there, and why rollouts wait.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::fleet::{PreviewWorkload, all, decisions};
use super::results::{Batch, RolloutWait};
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::condition::Conditions as _;
use api::gitops::v1alpha1::RolloutPolicy;
use api::names::addon_conditions::CONFIGURED;
use api::work::v1::ManifestWork;
use engine::addon::config::address;
use engine::addon::config_refs;
use engine::replica_set::{self, SuccessNeeds, WorkRecord};
use engine::rollout::cluster::Report;
use object::{Key, Metadata as _, Object};
use store::{JournalEntry, ResourcePath, Store};

/// The add-ons and sets of clusters over time.
pub(super) struct Timeline {
    start: Timestamp,
    /// The written add-ons and works, by resource and key.
    on_clusters: BTreeMap<(String, Key), OnCluster>,
    starts: Vec<Start>,
    /// The rollouts that are currently waiting.
    waiting: BTreeMap<RolloutName, String>,
    waits: Vec<RolloutWait>,
}

/// The add-on or the set, the placement and the revision of a rollout.
type RolloutName = (String, String, String, String);

#[derive(Clone, Debug, Default, PartialEq)]
struct OnCluster {
    /// The assigned configurations or template; [`NO_CONFIG`] for an add-on without any.
    assigned: Option<String>,
    has_arrived: bool,
}

/// A cluster gets an add-on, other configurations of it, or another template.
struct Start {
    workload: PreviewWorkload,
    cluster: String,
    after: i64,
    /// Seconds from the start until it was applied on the cluster.
    arrived: Option<i64>,
    group: String,
}

const ADD_ONS: &str = "managedclusteraddons";
const WORKS: &str = "manifestworks";
const POLICIES: &str = "rolloutpolicies";
/// The assignment of an add-on without configurations.
const NO_CONFIG: &str = "";

impl Timeline {
    pub(super) fn begin(hub: &Store, start: Timestamp) -> Self {
        let (on_clusters, waiting) = (BTreeMap::new(), waiting(hub));
        Self { start, on_clusters, starts: Vec::new(), waiting, waits: Vec::new() }
    }

    /// Records the writes of an instant. `before` is the hub at the start; only the state of written objects is
    /// read from it.
    pub(super) fn observe(&mut self, entries: &[JournalEntry], before: &Store, hub: &Store, now: Timestamp) {
        let after = now.duration_since(self.start).as_secs();
        if entries.iter().any(|entry| entry.resource.resource == POLICIES) {
            self.observe_waits(hub, after);
        }
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
            // An add-on without configurations completes its rollout when it is created.
            let is_install = state.assigned.as_deref() == Some(NO_CONFIG)
                && last.assigned.is_none()
                && before.get(&path(&id)).is_err();
            self.on_clusters.insert(id, state.clone());
            if is_install || state.assigned.is_some() && state.assigned != last.assigned && !state.has_arrived
            {
                let groups = groups.get_or_insert_with(|| decisions(hub).into_values().flatten().collect());
                let group = groups.get(&cluster).cloned().unwrap_or_default();
                let arrived = is_install.then_some(after);
                self.starts.push(Start { workload, cluster, after, arrived, group });
            } else if state.has_arrived && !last.has_arrived {
                let is = |start: &&mut Start| start.workload == workload && start.cluster == cluster;
                if let Some(start) = self.starts.iter_mut().rev().find(is) {
                    start.arrived = Some(after);
                }
            }
        }
    }

    /// Records the rollouts that start to wait.
    fn observe_waits(&mut self, hub: &Store, after: i64) {
        let waiting = waiting(hub);
        for (rollout, reason) in waiting.iter().filter(|(rollout, _)| !self.waiting.contains_key(*rollout)) {
            let (add_on, replica_set, placement, _) = rollout.clone();
            self.waits.push(RolloutWait { after, add_on, replica_set, placement, why: reason.clone() });
        }
        self.waiting = waiting;
    }

    pub(super) fn waits(&self) -> Vec<RolloutWait> {
        self.waits.clone()
    }

    /// Returns the batches of each add-on and set, that is, the clusters that start at the same time.
    pub(super) fn batches(&self) -> BTreeMap<PreviewWorkload, Vec<Batch>> {
        let mut starts: BTreeMap<(&PreviewWorkload, i64), Vec<&Start>> = BTreeMap::new();
        for start in &self.starts {
            starts.entry((&start.workload, start.after)).or_default().push(start);
        }
        let mut batches: BTreeMap<PreviewWorkload, Vec<Batch>> = BTreeMap::new();
        for ((workload, after), starts) in starts {
            let mut groups: BTreeSet<&String> = starts.iter().map(|start| &start.group).collect();
            if groups.iter().any(|group| group.is_empty()) {
                groups.clear();
            }
            let clusters: BTreeSet<&String> = starts.iter().map(|start| &start.cluster).collect();
            let arrived: Option<Vec<i64>> = starts.iter().map(|start| start.arrived).collect();
            batches.entry(workload.clone()).or_default().push(Batch {
                after,
                groups: groups.into_iter().cloned().collect(),
                clusters: clusters.into_iter().cloned().collect(),
                arrived_after: arrived.and_then(|arrived| arrived.into_iter().max()),
            });
        }
        batches
    }
}

/// Returns why rollouts with clusters left to start are waiting.
fn waiting(hub: &Store) -> BTreeMap<RolloutName, String> {
    let rollouts = all::<RolloutPolicy>(hub).flat_map(|policy| policy.status.unwrap_or_default().rollouts);
    let waiting = rollouts.filter(|rollout| !rollout.hold.is_empty() && rollout.counts.waiting > 0);
    let named = waiting.map(|rollout| {
        let placement = Key::namespaced(&rollout.placement_namespace, &rollout.placement_name).to_string();
        ((rollout.add_on, rollout.replica_set, placement, rollout.revision), rollout.hold)
    });
    named.collect()
}

/// Returns the path of an add-on or a work.
fn path((resource, key): &(String, Key)) -> ResourcePath {
    match resource.as_str() {
        ADD_ONS => ResourcePath::of::<ManagedClusterAddOn>(key),
        _ => ResourcePath::of::<ManifestWork>(key),
    }
}

/// Returns the state of an add-on or of a set's work; `None` if it is gone or is neither.
fn read(resource: &str, object: Option<&Object>) -> Option<(PreviewWorkload, OnCluster)> {
    let object = object?;
    if resource == ADD_ONS {
        let add_on: ManagedClusterAddOn = object.to_typed().ok()?;
        return Some((PreviewWorkload::AddOn(add_on.name().to_owned()), OnCluster::from_add_on(&add_on)));
    }
    let set = PreviewWorkload::from_work(object)?;
    Some((set, OnCluster::from_work(&object.to_typed().ok()?)))
}

impl OnCluster {
    fn at_start(before: &Store, id: &(String, Key)) -> Self {
        let object = before.get(&path(id)).ok();
        read(&id.0, object.as_deref()).map(|(_, state)| state).unwrap_or_default()
    }

    fn from_add_on(add_on: &ManagedClusterAddOn) -> Self {
        let references =
            add_on.status.as_ref().map(|status| status.config_references.as_slice()).unwrap_or_default();
        if references.is_empty() && add_on.holds(CONFIGURED) {
            return Self { assigned: Some(NO_CONFIG.to_owned()), has_arrived: true };
        }
        let assigned = config_refs::desired(references)
            .filter(|_| !references.is_empty())
            .map(|configs| address(&configs));
        let applied = config_refs::applied(references).map(|configs| address(&configs));
        Self { has_arrived: assigned.is_some() && assigned == applied, assigned }
    }

    fn from_work(work: &ManifestWork) -> Self {
        let assigned = WorkRecord::read(work).template.map(|hash| hash.0);
        let report = replica_set::report(work, SuccessNeeds::Applied);
        Self { has_arrived: report == Report::Succeeded, assigned }
    }
}
