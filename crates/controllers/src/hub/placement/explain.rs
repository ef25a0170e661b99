//! The explanation of an existing placement on the hub.

use jiff::Timestamp;

use super::index::Scheduling;
use super::read::bound;
use crate::placement_reads::is_disabled;
use api::cluster::v1::ManagedCluster;
use api::cluster::v1alpha1::AddOnPlacementScore;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::cluster::v1beta2::{ManagedClusterSet, ManagedClusterSetBinding};
use api::names::{PLACEMENT_LABEL, SCHEDULING_DISABLED_ANNOTATION};
use engine::placement::explain::{self, Explanation};
use engine::placement::{MAX_STEPS, ScheduleInput};
use object::Key;
use reconcile::{Controller, Plan, Query, Read, View, Watches};

/// Reads the input of [`explain`] without writing anything. It fills the caches of a process that shows
/// placements.
pub struct PlacementExplanationController;

impl Controller for PlacementExplanationController {
    const NAME: &'static str = "placement-explanation";
    type Primary = Placement;

    fn watches<W: Watches>(watches: &mut W) {
        watches.read::<PlacementDecision>();
        watches.read::<ManagedClusterSetBinding>();
        watches.read::<ManagedClusterSet>();
        watches.read::<ManagedCluster>();
        watches.read::<AddOnPlacementScore>();
    }

    fn plan(_: &Key, _: &impl View, _: Timestamp) -> Read<Plan> {
        Ok(Plan::nothing())
    }
}

/// Explains a placement, for people and for the debug endpoint. Returns `None` if the placement does not exist.
///
/// # Errors
/// Returns [`ReadError`](reconcile::ReadError) if an input has not been read.
pub fn explain(key: &Key, view: &impl View, now: Timestamp) -> Read<Option<Explanation>> {
    let Some(placement) = view.get::<Placement>(key)? else { return Ok(None) };
    let bound = bound(view, &key.namespace)?;
    let decisions =
        view.list::<PlacementDecision>(Query::label(PLACEMENT_LABEL, &key.name).within(&key.namespace))?;
    let explanation = view.index(|Scheduling { fleet, schedules: _ }: &mut Scheduling| {
        let (bound, decisions) = (bound.as_slice(), decisions.as_slice());
        let input = ScheduleInput { placement: &placement, bound, decisions, fleet, max_steps: MAX_STEPS };
        explain::explain(&input, now)
    })?;
    let disabled = match placement.metadata.deletion_timestamp {
        Some(_) => Some("the placement is being deleted".to_owned()),
        None => is_disabled(&placement)
            .then(|| format!("the annotation {SCHEDULING_DISABLED_ANNOTATION} is true")),
    };
    Ok(Some(Explanation { disabled, ..explanation }))
}
