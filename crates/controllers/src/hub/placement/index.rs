//! The index of the placement controller: the fleet, and the schedule of each placement.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::unreadable;
use api::cluster::v1::{ManagedCluster, Taint, TaintEffect};
use api::cluster::v1alpha1::AddOnPlacementScore;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::names::UNREADABLE_TAINT;
use engine::placement::filter::ClusterAttributes;
use engine::placement::{Fleet, IncrementalSchedule, SeenCluster};
use object::{Key, Metadata as _};
use reconcile::{Change, Index, Observes, Query, Read, Unreadable, View};

/// The fleet, and the cached schedule of each placement.
#[derive(Default)]
pub(super) struct Scheduling {
    pub(super) fleet: Fleet,
    pub(super) schedules: BTreeMap<Key, IncrementalSchedule>,
}

impl Index for Scheduling {
    fn build(view: &impl View) -> Read<Self> {
        // Clusters come last, so that an attempt is cheap while another kind cannot be read.
        let scores = view.list_readable::<AddOnPlacementScore>(Query::ALL)?;
        let decisions = view.list::<PlacementDecision>(Query::ALL)?;
        let clusters = view.list_readable::<ManagedCluster>(Query::ALL)?;
        let refused = view.unreadable::<ManagedCluster>(Query::ALL)?;
        let read: BTreeSet<&str> = clusters.iter().map(|cluster| cluster.name()).collect();
        let never_read = refused.iter().filter(|refused| !read.contains(refused.key.name.as_str()));
        let stand_ins: Vec<_> = never_read.map(|refused| Arc::new(placeholder(refused))).collect();
        // A placement without a schedule is due. When the index is built, no placement has one.
        let clusters = clusters.into_iter().chain(stand_ins);
        Ok(Self { fleet: Fleet::new(clusters, scores, decisions), schedules: BTreeMap::new() })
    }

    fn observes<O: Observes<Self>>(observes: &mut O) {
        observes.on::<ManagedCluster>(|scheduling, change| {
            scheduling.observe_cluster(change);
            scheduling.concerned_by_cluster(change)
        });
        observes.on::<PlacementDecision>(|scheduling, change| {
            scheduling.fleet.set_decision(change.old.as_deref(), change.new.as_deref());
            Vec::new()
        });
        observes.on::<AddOnPlacementScore>(|scheduling, change| {
            scheduling.fleet.set_score(change.old.as_deref(), change.new.clone());
            scheduling.concerned_by_score(change)
        });
        observes.on::<Placement>(|scheduling, change| {
            if let Change { old: Some(old), new: None } = change {
                scheduling.schedules.remove(&Key::of(&**old));
            }
            Vec::new()
        });
    }
}

impl Scheduling {
    fn observe_cluster(&mut self, change: &Change<ManagedCluster>) {
        match (&change.old, &change.new) {
            (_, Some(cluster)) => self.fleet.set_cluster(Arc::clone(cluster)),
            (Some(cluster), None) => {
                self.fleet.remove_cluster(cluster.name());
                if self.fleet.should_renumber() {
                    self.fleet.renumber();
                    for schedule in self.schedules.values_mut() {
                        *schedule = IncrementalSchedule::default();
                    }
                }
            }
            (None, None) => {}
        }
    }

    /// Returns the placements that a cluster change affects.
    fn concerned_by_cluster(&self, change: &Change<ManagedCluster>) -> Vec<Key> {
        let differs = change.differs_in(SeenCluster);
        let sides: Vec<ClusterAttributes> = change.sides().map(ClusterAttributes::from_cluster).collect();
        self.concerned(|schedule| {
            sides.iter().any(|attributes| schedule.concerns(&self.fleet, attributes, differs))
        })
    }

    /// Returns the placements that a score change affects.
    fn concerned_by_score(&self, change: &Change<AddOnPlacementScore>) -> Vec<Key> {
        self.concerned(|schedule| change.sides().any(|score| schedule.reads_score(score.name())))
    }

    fn concerned(&self, concerns: impl Fn(&IncrementalSchedule) -> bool) -> Vec<Key> {
        let concerned = self.schedules.iter().filter(|(_, schedule)| concerns(schedule));
        concerned.map(|(key, _)| key.clone()).collect()
    }
}

/// Returns a placeholder for an unreadable cluster, with its name and labels. Its taint keeps it in the placements
/// that selected it before, and out of all others.
fn placeholder(refused: &Unreadable) -> ManagedCluster {
    let mut cluster = unreadable::metadata(refused);
    let effect = TaintEffect::NoSelectIfNew;
    cluster.spec.taints = vec![Taint { key: UNREADABLE_TAINT.into(), effect, ..Taint::default() }];
    cluster
}
