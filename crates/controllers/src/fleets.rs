//! State of workloads that is kept between plans, so that a change only costs what it affects.
//!
//! A plan takes the state of its workload from the index and puts it back at its end. If the plan fails, the state
//! is lost, and the next plan starts from scratch. In between, the index records which clusters changed. Each plan
//! compares the facts that affect all clusters (contents, selections, rules) with the previous plan's.

use std::collections::{BTreeMap, BTreeSet};

use crate::placement_reads::rollout_facts;
use api::cluster::v1::ManagedCluster;
use object::{Key, Kind, Metadata as _};
use reconcile::{Change, Index, Observes, Read, View};

/// A workload on the clusters of a hub.
pub(super) trait Fleet: Default + Send + 'static {
    type Workload: Kind;
    /// The content of the workload on one cluster, in the namespace of the cluster.
    type Content: Kind;

    /// Returns the workload of a content.
    fn workload_of(content: &Self::Content) -> Option<Key>;

    /// Returns the clusters that changed since the last decision.
    fn changed(&mut self) -> &mut BTreeSet<String>;
}

/// The index of the controllers that decide about workloads of a kind.
#[derive(Default)]
pub(super) struct Fleets<F>(BTreeMap<Key, F>);

impl<F: Fleet> Index for Fleets<F> {
    fn build(_: &impl View) -> Read<Self> {
        Ok(Self::default())
    }

    fn observes<O: Observes<Self>>(observes: &mut O) {
        observes.on::<F::Workload>(|fleets, change| {
            if let Change { old: Some(old), new: None } = change {
                fleets.0.remove(&Key::of(old.as_ref()));
            }
            Vec::new()
        });
        observes.on::<F::Content>(|fleets, change| {
            for content in change.sides() {
                if let Some(fleet) = F::workload_of(content).and_then(|key| fleets.0.get_mut(&key)) {
                    fleet.changed().insert(content.namespace().to_owned());
                }
            }
            Vec::new()
        });
        observes.on::<ManagedCluster>(|fleets, change| {
            if let Some(cluster) = change.latest().filter(|_| change.differs_in(rollout_facts)) {
                for fleet in fleets.0.values_mut() {
                    fleet.changed().insert(cluster.name().to_owned());
                }
            }
            Vec::new()
        });
    }
}

impl<F: Fleet> Fleets<F> {
    /// Takes the state of a workload.
    pub(super) fn take(&mut self, workload: &Key) -> F {
        self.0.remove(workload).unwrap_or_default()
    }

    /// Stores the state of a workload for the next decision.
    pub(super) fn keep(&mut self, workload: Key, fleet: F) {
        self.0.insert(workload, fleet);
    }
}
