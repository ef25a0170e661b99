//! The input of the rollouts of a set.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;

use crate::placement_reads::{group_size, selection};
use api::cluster::v1beta1::Placement;
use api::names::{WORK_PLACEMENT_LABEL, WORK_REPLICA_SET_LABEL};
use api::work::v1::{ManifestWork, ManifestWorkSpec};
use api::work::v1alpha1::{LocalPlacementReference, ManifestWorkReplicaSet, ManifestWorkReplicaSetSpec};
use engine::addon::selection::Selection;
use engine::replica_set::{self, WorkRecord};
use engine::rollout::Size;
use engine::rollout::input::Hash;
use object::{Key, Metadata as _};
use reconcile::{Query, Read, View};

/// The input of the decision about the rollouts of a set.
pub(super) struct SetInput {
    pub(super) set: Arc<ManifestWorkReplicaSet>,
    pub(super) key: Key,
    /// The label of its works.
    pub(super) owner: String,
    /// The template's hash.
    pub(super) revision: Hash,
    /// Templates by hash: the newest one, the snapshots, and those of works that this controller has not
    /// written yet.
    pub(super) contents: BTreeMap<Hash, ManifestWorkSpec>,
    /// The snapshots that exist.
    pub(super) snapshots: BTreeMap<Hash, Arc<ControllerRevision>>,
    pub(super) placements: Vec<Node>,
    /// Whether every placement exists and is settled.
    pub(super) settled: bool,
    /// The work of each cluster, and the template in it.
    pub(super) works: BTreeMap<String, (Arc<ManifestWork>, Hash)>,
    /// Surplus works of clusters.
    pub(super) surplus: Vec<Arc<ManifestWork>>,
    /// Clusters with a work that cannot be read.
    pub(super) unreadable: BTreeSet<String>,
}

/// One placement of a set.
pub(super) struct Node {
    pub(super) placement: Key,
    pub(super) exists: bool,
    pub(super) reference: LocalPlacementReference,
    pub(super) selection: Selection,
    pub(super) group_size: Option<Size>,
    /// Clusters of earlier placements.
    pub(super) taken: BTreeSet<String>,
}

impl Node {
    /// Returns the clusters that have their work from this placement.
    pub(super) fn clusters(&self) -> impl Iterator<Item = &str> {
        self.selection.clusters().filter(|cluster| !self.taken.contains(*cluster))
    }
}

impl SetInput {
    pub(super) fn read(set: Arc<ManifestWorkReplicaSet>, owner: String, view: &impl View) -> Read<Self> {
        let key = Key::of(set.as_ref());
        let ManifestWorkReplicaSetSpec {
            manifest_work_template,
            placement_refs: _,          // `read_placements` reads them.
            cascade_deletion_policy: _, // The deletion of the set reads it.
            unknown: _,
        } = &set.spec;
        let template = replica_set::content(manifest_work_template);
        let revision = replica_set::hash(&template);
        let mut input = Self {
            revision: revision.clone(),
            contents: BTreeMap::from([(revision, template)]),
            snapshots: BTreeMap::new(),
            placements: Vec::new(),
            settled: true,
            works: BTreeMap::new(),
            surplus: Vec::new(),
            unreadable: BTreeSet::new(),
            set,
            key,
            owner,
        };
        input.read_placements(view)?;
        input.read_snapshots(view)?;
        input.read_works(view)?;
        Ok(input)
    }

    fn read_placements(&mut self, view: &impl View) -> Read<()> {
        let mut taken = BTreeSet::new();
        for reference in &self.set.spec.placement_refs {
            let placement = Key::namespaced(&self.key.namespace, &reference.name);
            if self.placements.iter().any(|node| node.placement == placement) {
                continue;
            }
            let object = view.get::<Placement>(&placement)?;
            let selection = selection(&placement, view)?;
            let own: BTreeSet<String> = selection.clusters().map(str::to_owned).collect();
            self.settled &= selection.settled;
            self.placements.push(Node {
                exists: object.is_some(),
                group_size: object.as_deref().and_then(group_size),
                reference: reference.clone(),
                taken: taken.clone(),
                placement,
                selection,
            });
            taken.extend(own);
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

    /// Chooses among several works on one cluster: the one with our name, else the first by name.
    fn read_works(&mut self, view: &impl View) -> Read<()> {
        let query = Query::label(WORK_REPLICA_SET_LABEL, &self.owner);
        for unreadable in view.unreadable::<ManifestWork>(query)? {
            self.unreadable.insert(unreadable.key.namespace.clone());
        }
        let ours = replica_set::name(&self.key);
        let mut works = view.list_readable::<ManifestWork>(query)?;
        works.retain(|work| replica_set::is_owned(&self.key, work));
        works.retain(|work| !work.is_terminating() && !self.unreadable.contains(work.namespace()));
        works.sort_by_key(|work| (work.name() != ours, work.name().to_owned()));
        for work in works {
            if self.works.contains_key(work.namespace()) {
                self.surplus.push(work);
            } else {
                let runs = self.runs(&work);
                self.works.insert(work.namespace().to_owned(), (work, runs));
            }
        }
        Ok(())
    }

    /// Returns the template in a work: the one that its annotation names or, in a work of OCM's controller,
    /// the content of the work.
    fn runs(&mut self, work: &ManifestWork) -> Hash {
        if let Some(hash) = WorkRecord::read(work).template {
            return hash;
        }
        let spec = replica_set::content(&work.spec);
        if self.contents.get(&self.revision) == Some(&spec) {
            return self.revision.clone();
        }
        let hash = replica_set::hash(&spec);
        self.contents.insert(hash.clone(), spec);
        hash
    }

    /// Returns the works of clusters that no placement selects any more.
    pub(super) fn leaving(&self) -> impl Iterator<Item = &Arc<ManifestWork>> {
        let selected: BTreeSet<&str> =
            self.placements.iter().flat_map(|node| node.selection.clusters()).collect();
        let works = self.works.iter().filter(move |(cluster, _)| !selected.contains(cluster.as_str()));
        works.map(|(_, (work, _))| work)
    }

    /// Returns whether the set still names the placement that a work was made for.
    pub(super) fn has_placement_of(&self, work: &ManifestWork) -> bool {
        let placement = work.label(WORK_PLACEMENT_LABEL);
        self.placements.iter().any(|node| Some(node.placement.name.as_str()) == placement)
    }
}
