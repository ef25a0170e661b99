//! The input of the rollouts of a set.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;

use super::fleet::{SetFleet, SetFleets};
use crate::rollout_driver::PlacementNode;
use api::names::{REMOVAL_DECIDED_ANNOTATION, WORK_PLACEMENT_LABEL, WORK_REPLICA_SET_LABEL};
use api::work::v1::{ManifestWork, ManifestWorkSpec};
use api::work::v1alpha1::{ManifestWorkReplicaSet, ManifestWorkReplicaSetSpec};
use engine::replica_set;
use engine::rollout::cluster::{Hash, Instance};
use object::{Key, Metadata as _};
use reconcile::{Query, Read, View};

/// The input of the decision about the rollouts of a set.
pub(super) struct SetInput {
    pub(super) set: Arc<ManifestWorkReplicaSet>,
    pub(super) key: Key,
    /// The label of the set's works.
    pub(super) owner: String,
    /// The hash of the template.
    pub(super) revision: Hash,
    /// Templates by hash: the newest one, the snapshots, and the ones in works.
    pub(super) contents: BTreeMap<Hash, ManifestWorkSpec>,
    /// The existing snapshots.
    pub(super) snapshots: BTreeMap<Hash, Arc<ControllerRevision>>,
    pub(super) placements: Vec<PlacementNode>,
    /// True if every placement exists and is settled.
    pub(super) settled: bool,
    /// The works on the clusters, with the results of earlier decisions.
    pub(super) fleet: SetFleet,
    /// The clusters that changed since the last decision.
    pub(super) changed: BTreeSet<String>,
}

impl SetInput {
    pub(super) fn read(
        set: Arc<ManifestWorkReplicaSet>,
        owner: String,
        view: &impl View,
        now: Timestamp,
    ) -> Read<Self> {
        let key = Key::of(set.as_ref());
        let ManifestWorkReplicaSetSpec {
            manifest_work_template,
            placement_refs: _,          // read by `read_placements`
            cascade_deletion_policy: _, // read by the deletion of the set
            unknown: _,
        } = &set.spec;
        let template = replica_set::content(manifest_work_template);
        let revision = replica_set::hash(&template);
        let mut fleet = view.index(|fleets: &mut SetFleets| fleets.take(&key))?;
        let changed = fleet.update(&key, &owner, view)?;
        let mut input = Self {
            revision: revision.clone(),
            contents: BTreeMap::from([(revision, template)]),
            snapshots: BTreeMap::new(),
            placements: Vec::new(),
            settled: true,
            fleet,
            changed,
            set,
            key,
            owner,
        };
        input.read_placements(view, now)?;
        input.read_snapshots(view)?;
        input.read_works();
        Ok(input)
    }

    /// Stores the state that the next decision needs.
    pub(super) fn keep(self, view: &impl View) -> Read<()> {
        let Self { key, fleet, .. } = self;
        view.index(|fleets: &mut SetFleets| fleets.keep(key, fleet))
    }

    fn read_placements(&mut self, view: &impl View, now: Timestamp) -> Read<()> {
        for reference in &self.set.spec.placement_refs {
            let placement = Key::namespaced(&self.key.namespace, &reference.name);
            if self.placements.iter().any(|node| node.placement == placement) {
                continue;
            }
            let (strategy, selections) = (&reference.rollout_strategy, &mut self.fleet.selections);
            let node = PlacementNode::read(placement, strategy, selections, view, now)?;
            self.settled &= node.clusters.selection.settled;
            self.placements.push(node);
        }
        let selections: Vec<_> =
            self.placements.iter().map(|node| Arc::clone(&node.clusters.selection)).collect();
        self.fleet.select(&selections, &self.revision);
        let left: Vec<_> = self.placements.iter().map(|node| self.left_by(node)).collect();
        for ((node, taken), left) in self.placements.iter_mut().zip(&self.fleet.taken).zip(left) {
            (node.clusters.taken, node.left) = (Arc::clone(taken), left);
        }
        Ok(())
    }

    fn read_snapshots(&mut self, view: &impl View) -> Read<()> {
        let query = Query::label(WORK_REPLICA_SET_LABEL, &self.owner).within(&self.key.namespace);
        for snapshot in view.list::<ControllerRevision>(query)? {
            if let Some((hash, spec)) = replica_set::snapshot_spec(&self.key, &snapshot) {
                self.contents.entry(hash.clone()).or_insert(spec);
                self.snapshots.insert(hash, snapshot);
            }
        }
        Ok(())
    }

    /// Reads the templates without a snapshot from works that run them. A work that people have edited runs a
    /// template other than the recorded one.
    fn read_works(&mut self) {
        let Self { fleet: SetFleet { templates, works, .. }, contents, .. } = self;
        for template in templates.keys() {
            if contents.contains_key(template) {
                continue;
            }
            let mut running = works.values().filter(|(_, runs)| runs == template);
            let content = running.find_map(|(work, _)| {
                let content = replica_set::content(&work.spec);
                (replica_set::hash(&content) == *template).then_some(content)
            });
            contents.extend(content.map(|content| (template.clone(), content)));
        }
    }

    /// Returns the works of a placement on clusters that no placement selects any longer; none while the selection
    /// is unknown.
    fn left_by(&self, node: &PlacementNode) -> BTreeMap<String, Instance> {
        if !self.settled {
            return BTreeMap::new();
        }
        let of_node = |work: &ManifestWork| {
            // The works of a placement that the set no longer names count for its first one, so that every removal
            // is within the budget. See docs/hazards.md#edited-placements.
            let is_first = self.placements.first().is_some_and(|first| first.placement == node.placement);
            work.label(WORK_PLACEMENT_LABEL) == Some(node.placement.name.as_str())
                || (is_first && !self.has_placement_of(work))
        };
        let left = self.fleet.unselected.iter().filter_map(|cluster| {
            let (work, _) = self.fleet.works.get(cluster).filter(|(work, _)| of_node(work))?;
            let is_decided = work.annotation(REMOVAL_DECIDED_ANNOTATION).is_some();
            Some((cluster.clone(), Instance { uid: work.uid().to_owned(), is_decided }))
        });
        left.collect()
    }

    /// Returns true if the set still names the placement of a work.
    fn has_placement_of(&self, work: &ManifestWork) -> bool {
        let placement = work.label(WORK_PLACEMENT_LABEL);
        self.placements.iter().any(|node| Some(node.placement.name.as_str()) == placement)
    }
}
