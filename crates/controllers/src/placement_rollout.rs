//! The rollout on the clusters of a placement, kept between decisions so that a change only costs what it affects.
//!
//! A cluster is read again when it has changed, or when its state depends on the time. If the selection changes,
//! the added clusters are read. The controllers compare the input that all clusters share, and start from scratch
//! if it has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use api::gitops::v1alpha1::RolloutStatus;
use engine::addon::selection::Selection;
use engine::rollout::cluster::{Cluster, Hash, Instance};
use engine::rollout::{ClusterState, IncrementalRollout, Input, RolloutDecision};
use object::Key;
use reconcile::Read;

/// The clusters that a placement decides about.
#[derive(Clone, Default)]
pub(super) struct PlacementClusters {
    pub(super) selection: Arc<Selection>,
    /// Selected clusters that another placement decides about.
    pub(super) taken: Arc<BTreeSet<String>>,
}

impl PlacementClusters {
    /// Returns the names of the clusters.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.selection.clusters().filter(|cluster| !self.taken.contains(*cluster))
    }

    pub(super) fn count(&self) -> usize {
        if self.taken.is_empty() { self.selection.clusters().count() } else { self.iter().count() }
    }
}

/// The decided rollout on the clusters of a placement.
pub struct PlacementRollout {
    pub placement: Key,
    /// The revision that is rolled out.
    pub revision: Hash,
    /// The input of the engine; absent if the engine is not called.
    pub input: Option<Arc<Input>>,
    /// The decision of the engine, or the reason that it is not called.
    pub decision: Result<Arc<RolloutDecision>, String>,
    /// Where and why the revision failed; empty if it has not failed. The text comes from the cluster and must be
    /// escaped.
    pub failure: String,
    /// The record of the decision in the status of the RolloutPolicy.
    pub record: Option<RolloutStatus>,
}

impl PlacementRollout {
    /// Returns the time at which the decision changes without an event.
    pub(super) fn recheck(&self) -> Option<Timestamp> {
        self.decision.as_ref().ok()?.recheck
    }

    /// Returns a rollout for which the engine is not called.
    pub(super) fn undecided(placement: Key, revision: Hash, reason: String) -> Self {
        Self { placement, revision, input: None, decision: Err(reason), failure: String::new(), record: None }
    }
}

/// Returns the reported reason that a cluster is not done, or that it is done but broken.
pub(super) fn reason(
    state: &ClusterState,
    is_broken: bool,
    message: impl FnOnce() -> Option<String>,
) -> Option<String> {
    match state {
        ClusterState::Failed { .. }
        | ClusterState::TimedOut
        | ClusterState::Progressing { .. }
        | ClusterState::Unreachable { .. }
        | ClusterState::Returning { .. } => message(),
        ClusterState::Done if is_broken => message().map(|message| format!("not available: {message}")),
        ClusterState::Done
        | ClusterState::Soaking { .. }
        | ClusterState::Starting
        | ClusterState::Waiting(_)
        | ClusterState::Skipped
        | ClusterState::Returned { .. }
        | ClusterState::Quarantined => None,
    }
}

/// A cluster as engine input.
pub(super) struct RolloutMember {
    pub(super) cluster: Cluster,
    /// True if the next decision reads the cluster again, because its state depends on the time.
    pub(super) is_timed: bool,
}

/// The input of the next decision about a rollout.
pub(super) struct NextRollout<'a> {
    pub(super) clusters: &'a PlacementClusters,
    /// The content on clusters that have it although no placement selects them.
    pub(super) left: BTreeMap<String, Instance>,
    /// The input without groups and clusters.
    pub(super) rules: Input,
    /// The clusters that changed since the last decision.
    pub(super) changed: &'a BTreeSet<String>,
}

/// The rollout on the clusters of a placement.
pub(super) struct MemberRollout {
    pub(super) rollout: IncrementalRollout,
    clusters: PlacementClusters,
    left: BTreeMap<String, Instance>,
    /// Clusters of the placement that the rollout skips.
    absent: BTreeSet<String>,
    /// Clusters to read again at the next decision.
    timed: BTreeSet<String>,
}

impl MemberRollout {
    /// Returns a rollout without clusters.
    pub(super) fn new(rules: &Input) -> Self {
        Self {
            rollout: IncrementalRollout::new(rules.clone()),
            clusters: PlacementClusters::default(),
            left: BTreeMap::new(),
            absent: BTreeSet::new(),
            timed: BTreeSet::new(),
        }
    }

    /// Keeps changes for the next decision.
    pub(super) fn postpone(&mut self, changed: &BTreeSet<String>) {
        self.timed.extend(changed.iter().cloned());
    }

    /// Returns true if the rollout skips a cluster of the placement.
    pub(super) fn is_absent(&self, name: &str) -> bool {
        self.absent.contains(name)
    }

    /// Processes the changes. `read` returns a cluster of the placement, or `None` if the rollout skips it.
    pub(super) fn update(
        &mut self,
        next: NextRollout<'_>,
        mut read: impl FnMut(&str) -> Read<Option<RolloutMember>>,
    ) -> Read<()> {
        let due: BTreeSet<String> = next.changed.union(&std::mem::take(&mut self.timed)).cloned().collect();
        let is_same = Arc::ptr_eq(&self.clusters.selection, &next.clusters.selection)
            && self.clusters.taken == next.clusters.taken
            && self.left == next.left;
        if is_same && self.replace(&due, &mut read)? {
            self.rollout.set_rules(next.rules);
            return Ok(());
        }
        self.rebuild(next, &due, &mut read)
    }

    /// Reads clusters again. Returns true if the rollout has the same clusters as before.
    fn replace(
        &mut self,
        due: &BTreeSet<String>,
        read: &mut impl FnMut(&str) -> Read<Option<RolloutMember>>,
    ) -> Read<bool> {
        for name in due {
            let is_absent = self.is_absent(name);
            let is_member = !self.left.contains_key(name) && self.rollout.cluster(name).is_some();
            if !is_absent && !is_member {
                continue;
            }
            match read(name)? {
                Some(member) if !is_absent => self.set(member),
                None if is_absent => {}
                Some(_) | None => return Ok(false),
            }
        }
        Ok(true)
    }

    fn set(&mut self, member: RolloutMember) {
        if member.is_timed {
            self.timed.insert(member.cluster.name.clone());
        }
        self.rollout.set_cluster(member.cluster);
    }

    /// Reads the clusters of the placement, except those that have been read and are not due.
    fn rebuild(
        &mut self,
        next: NextRollout<'_>,
        due: &BTreeSet<String>,
        read: &mut impl FnMut(&str) -> Read<Option<RolloutMember>>,
    ) -> Read<()> {
        let NextRollout { clusters, left, rules, changed: _ } = next;
        let before = std::mem::replace(&mut self.rollout, IncrementalRollout::new(rules.clone()));
        let is_usable = |name: &str| !due.contains(name) && !self.left.contains_key(name);
        let mut usable: BTreeMap<String, Cluster> = before
            .into_clusters()
            .into_iter()
            .filter(|cluster| is_usable(&cluster.name))
            .map(|cluster| (cluster.name.clone(), cluster))
            .collect();
        (self.absent, self.timed) = (BTreeSet::new(), BTreeSet::new());
        let mut members = Vec::new();
        for name in clusters.iter() {
            if let Some(cluster) = usable.remove(name) {
                members.push(cluster);
                continue;
            }
            match read(name)? {
                Some(RolloutMember { cluster, is_timed }) => {
                    if is_timed {
                        self.timed.insert(name.to_owned());
                    }
                    members.push(cluster);
                }
                None => {
                    self.absent.insert(name.to_owned());
                }
            }
        }
        let without: BTreeSet<String> = self.absent.union(&clusters.taken).cloned().collect();
        let groups = clusters.selection.without(&without);
        let runs = Some(rules.revision.clone());
        members.extend(left.iter().map(|(name, instance)| Cluster {
            name: name.clone(),
            runs: runs.clone(),
            instance: instance.clone(),
            ..Cluster::default()
        }));
        self.rollout = IncrementalRollout::new(Input { groups, clusters: members, ..rules });
        (self.clusters, self.left) = (clusters.clone(), left);
        Ok(())
    }
}
