//! A set on the clusters of a hub, as its plans know it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::SignedDuration;

use super::set_of;
use crate::fleets::{Fleet, Fleets};
use crate::placement_reads::{Selections, are_same, taken};
use crate::rollout_driver::CachedRollout;
use api::cluster::v1::ManagedCluster;
use api::names::WORK_REPLICA_SET_LABEL;
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use engine::addon::selection::Selection;
use engine::replica_set::{self, ReportedErrors, SuccessNeeds, WorkCounts, WorkRecord};
use engine::rollout::cluster::Hash;
use engine::rollout::{ClusterState, RolloutDecision};
use object::{Key, Metadata as _};
use reconcile::{Query, Read, View};

/// The index of the controller.
pub(super) type SetFleets = Fleets<SetFleet>;

impl Fleet for SetFleet {
    type Workload = ManifestWorkReplicaSet;
    type Content = ManifestWork;

    fn workload_of(work: &ManifestWork) -> Option<Key> {
        set_of(work)
    }

    fn changed(&mut self) -> &mut BTreeSet<String> {
        &mut self.changed
    }
}

/// An error that a work reports.
pub(super) struct WorkError {
    message: String,
    /// True for a temporary error, such as for an object whose namespace does not exist yet.
    may_pass: bool,
}

/// A set on the clusters of a hub.
#[derive(Default)]
pub(super) struct SetFleet {
    is_read: bool,
    /// Clusters that changed since the last decision.
    changed: BTreeSet<String>,
    /// The work on each cluster, and its template.
    pub(super) works: BTreeMap<String, (Arc<ManifestWork>, Hash)>,
    /// The errors that works report about their template.
    pub(super) errors: BTreeMap<String, WorkError>,
    /// Surplus works on clusters.
    pub(super) surplus: BTreeMap<String, Vec<Arc<ManifestWork>>>,
    /// Clusters that get no work, with the reason that its Secrets cannot be encrypted.
    pub(super) unsealed: BTreeMap<String, &'static str>,
    /// Clusters with an unreadable work.
    pub(super) unreadable: BTreeSet<String>,
    /// Unreadable clusters.
    unreadable_clusters: BTreeSet<String>,
    /// The templates that clusters run or last succeeded with, and the number of works that name each.
    pub(super) templates: BTreeMap<Hash, usize>,
    pub(super) selections: Selections,
    selected_by: Vec<Arc<Selection>>,
    /// By placement: the clusters that earlier placements select.
    pub(super) taken: Vec<Arc<BTreeSet<String>>>,
    /// The clusters that a placement selects.
    selected: BTreeSet<String>,
    /// The clusters that have a work but that no placement selects.
    pub(super) unselected: BTreeSet<String>,
    /// The template that `counts` treats as the newest.
    newest: Hash,
    /// The counts of works by placement.
    pub(super) counts: Vec<WorkCounts>,
    /// The rollouts of the last decision, by placement.
    pub(super) rollouts: BTreeMap<Key, CachedRollout<SetRolloutBasis, ()>>,
    /// Clusters on which the next plan may have something to write.
    pub(super) open: BTreeSet<String>,
}

/// The input that the clusters of a placement share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SetRolloutBasis {
    pub(super) revision: Hash,
    /// The template that succeeded on all clusters.
    pub(super) good: Option<Hash>,
    pub(super) needs: SuccessNeeds,
    pub(super) soak: SignedDuration,
    /// The templates with known content.
    pub(super) known: BTreeSet<Hash>,
    /// The labels of the set, which its works inherit.
    pub(super) labels: BTreeMap<String, String>,
}

impl SetFleet {
    /// Reads the changes and returns the affected clusters.
    pub(super) fn update(&mut self, set: &Key, owner: &str, view: &impl View) -> Read<BTreeSet<String>> {
        let query = Query::label(WORK_REPLICA_SET_LABEL, owner);
        let refused = view.unreadable::<ManifestWork>(query)?;
        let unreadable = refused.iter().map(|refused| refused.key.namespace.clone()).collect();
        let refused = view.unreadable::<ManagedCluster>(Query::ALL)?;
        let unreadable_clusters = refused.iter().map(|refused| refused.key.name.clone()).collect();
        let mut changed = std::mem::take(&mut self.changed);
        let before = std::mem::replace(&mut self.unreadable, unreadable);
        changed.extend(before.symmetric_difference(&self.unreadable).cloned());
        let before = std::mem::replace(&mut self.unreadable_clusters, unreadable_clusters);
        changed.extend(before.symmetric_difference(&self.unreadable_clusters).cloned());
        let ours = replica_set::name(set);
        if !std::mem::replace(&mut self.is_read, true) {
            let works = view.list_readable::<ManifestWork>(query)?;
            for works in works.chunk_by(|a, b| a.namespace() == b.namespace()) {
                self.set_works(works.to_vec(), set, &ours);
            }
            return Ok(changed);
        }
        for cluster in &changed {
            self.forget(cluster);
            self.set_works(view.list_readable(query.within(cluster))?, set, &ours);
        }
        Ok(changed)
    }

    /// Chooses among the works on a cluster: the one with our name, or else the first by name.
    fn set_works(&mut self, mut works: Vec<Arc<ManifestWork>>, set: &Key, ours: &str) {
        works.retain(|work| replica_set::is_owned(set, work) && !work.is_terminating());
        works.sort_by_key(|work| (work.name() != ours, work.name().to_owned()));
        let mut works = works.into_iter();
        let Some(work) = works.next().filter(|work| !self.unreadable.contains(work.namespace())) else {
            return;
        };
        let cluster = work.namespace().to_owned();
        let surplus: Vec<_> = works.collect();
        if !surplus.is_empty() {
            self.surplus.insert(cluster.clone(), surplus);
        }
        // A work from OCM's controller has no record.
        let record = WorkRecord::read(&work);
        let runs = record.template.unwrap_or_else(|| replica_set::hash(&replica_set::content(&work.spec)));
        if !self.selected.contains(&cluster) {
            self.unselected.insert(cluster.clone());
        }
        self.count(&cluster, &work, &runs, true);
        if let Some(message) = engine::work::error(&work) {
            let may_pass = engine::work::trouble(&work).is_none();
            self.errors.insert(cluster.clone(), WorkError { message, may_pass });
        }
        self.works.insert(cluster, (work, runs));
    }

    /// Forgets the works on a cluster.
    fn forget(&mut self, cluster: &str) {
        self.surplus.remove(cluster);
        self.unselected.remove(cluster);
        self.errors.remove(cluster);
        let Some((work, runs)) = self.works.remove(cluster) else { return };
        self.count(cluster, &work, &runs, false);
    }

    /// Adds a work to the counts, or subtracts it.
    fn count(&mut self, cluster: &str, work: &ManifestWork, runs: &Hash, is_there: bool) {
        let good = WorkRecord::read(work).last_good;
        for template in [Some(runs), good.as_ref()].into_iter().flatten() {
            let count = self.templates.entry(template.clone()).or_default();
            *count = if is_there { *count + 1 } else { count.saturating_sub(1) };
            if *count == 0 {
                self.templates.remove(template);
            }
        }
        let placement = self.placement_of(cluster);
        if let Some(counts) = placement.and_then(|placement| self.counts.get_mut(placement)) {
            counts.count(work, *runs == self.newest, is_there);
        }
    }

    /// Returns the position of the placement that decides about a cluster: the first that selects it.
    fn placement_of(&self, cluster: &str) -> Option<usize> {
        let selected = self.taken.iter().skip(1).map(Arc::as_ref).chain([&self.selected]);
        selected.into_iter().position(|selected| selected.contains(cluster))
    }

    /// Returns the errors about the newest template from the clusters of a placement, which is given by its
    /// position. Temporary errors count once the cluster has timed out.
    pub(super) fn errors_of(
        &self,
        placement: usize,
        decision: Option<&RolloutDecision>,
    ) -> ReportedErrors<'_> {
        let has_timed_out = |cluster: &str| {
            let assignment = decision.and_then(|decision| decision.clusters.get(cluster));
            assignment.is_some_and(|assignment| assignment.state == ClusterState::TimedOut)
        };
        let is_of = |cluster: &str| {
            self.placement_of(cluster) == Some(placement)
                && self.works.get(cluster).is_some_and(|(_, runs)| *runs == self.newest)
        };
        let counts =
            |(cluster, error): &(&String, &WorkError)| !error.may_pass || has_timed_out(cluster.as_str());
        let errors = self.errors.iter().filter(counts).filter(|(cluster, _)| is_of(cluster));
        let errors = errors.map(|(cluster, error)| (cluster.as_str(), error.message.as_str()));
        let unsealed = self.unsealed.iter().map(|(cluster, reason)| (cluster.as_str(), *reason));
        let unsealed = unsealed.filter(|(cluster, _)| self.placement_of(cluster) == Some(placement));
        ReportedErrors::of(unsealed.chain(errors))
    }

    /// Updates the selected clusters from the placements' selections, in the order of the placements, and the
    /// newest template.
    pub(super) fn select(&mut self, selections: &[Arc<Selection>], newest: &Hash) {
        if are_same(&self.selected_by, selections) && self.newest == *newest {
            return;
        }
        self.selected_by = selections.to_vec();
        self.newest = newest.clone();
        (self.taken, self.selected) = taken(selections);
        let unselected = self.works.keys().filter(|cluster| !self.selected.contains(*cluster));
        self.unselected = unselected.cloned().collect();
        let mut counts = vec![WorkCounts::default(); selections.len()];
        for (cluster, (work, runs)) in &self.works {
            if let Some(counts) = self.placement_of(cluster).and_then(|placement| counts.get_mut(placement)) {
                counts.count(work, runs == newest, true);
            }
        }
        self.counts = counts;
    }
}
