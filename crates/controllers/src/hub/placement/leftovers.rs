//! The decisions of a placement that no longer exists.
//!
//! A garbage collector deletes them too, by their owner references, but a hub may have none.

use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::names::PLACEMENT_LABEL;
use object::{Key, refers_to};
use reconcile::{Action, Plan, Query, Read, View};

/// Deletes the decisions that only the placement owns.
///
/// Asks the API server whether the placement exists, because a list may not contain it. A recreated placement
/// adopts the decisions.
pub(super) fn delete(placement: &Key, view: &impl View) -> Read<Plan> {
    let mut plan = Plan::nothing();
    let query = Query::label(PLACEMENT_LABEL, &placement.name).within(&placement.namespace);
    let mut decisions = view.list::<PlacementDecision>(query)?;
    decisions.retain(|decision| is_owned(decision, placement));
    if decisions.is_empty() || view.exists::<Placement>(placement)? {
        return Ok(plan);
    }
    plan.step(decisions.iter().map(|decision| Action::delete(decision.as_ref())));
    Ok(plan)
}

fn is_owned(decision: &PlacementDecision, placement: &Key) -> bool {
    let owners = decision.metadata.owner_references.as_deref().unwrap_or_default();
    !owners.is_empty() && owners.iter().all(|owner| refers_to::<Placement>(owner, &placement.name))
}
