//! The explanation of a placement that exists on the hub.

use jiff::Timestamp;

use super::index::Scheduling;
use super::read::{bound, is_disabled};
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::names::{PLACEMENT_LABEL, SCHEDULING_DISABLED_ANNOTATION};
use engine::placement::explain::{self, Explanation};
use engine::placement::{Input, MAX_STEPS};
use object::Key;
use reconcile::{Query, Read, View};

/// Explains a placement, for people and for the debug endpoint; returns `None` if the placement does not
/// exist.
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
        let input = Input { placement: &placement, bound, decisions, fleet, max_steps: MAX_STEPS };
        explain::explain(&input, now)
    })?;
    let why = match placement.metadata.deletion_timestamp {
        Some(_) => Some("the placement is being deleted".to_owned()),
        None => is_disabled(&placement)
            .then(|| format!("the annotation {SCHEDULING_DISABLED_ANNOTATION} is true")),
    };
    Ok(Some(Explanation { disabled: why, ..explanation }))
}
