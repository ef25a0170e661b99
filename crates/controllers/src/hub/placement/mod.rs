//! The placement controller: publishes the clusters that placements select as PlacementDecisions.

mod explain;
mod index;
mod leftovers;
mod plan;
mod read;
mod users;

use std::sync::Arc;

use jiff::Timestamp;

use self::index::Scheduling;
use self::read::{bound, decisions_in_status, decisions_to_create};
use self::users::{users_of, users_of_sets};
use crate::placement_reads::is_disabled;
pub use crate::placement_reads::placement_of;
use crate::unreadable;
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::{Placement, PlacementDecision, PlacementStatus};
use api::cluster::v1beta2::{ManagedClusterSet, ManagedClusterSetBinding};
use api::condition::{Condition, find_condition};
use api::names::PLACEMENT_LABEL;
use api::names::placement_conditions::{MISCONFIGURED, SATISFIED};
use engine::placement::sets::SetMembers;
use engine::placement::{MAX_STEPS, ScheduleInput};
use object::{Key, Metadata as _};
use reconcile::{Controller, Plan, Query, Read, View, Watches};

pub use self::explain::{LabelChange, PlacementExplanationController, explain, explain_with};

/// Schedules placements.
pub struct PlacementController;

impl Controller for PlacementController {
    const NAME: &'static str = "placement";
    type Primary = Placement;
    const REPORTER: &'static str = "placement-controller";
    /// Balance prefers clusters that few placements have selected, so each placement must see the selection of the
    /// previous one.
    const MAX_CONCURRENT_RECONCILES: usize = 1;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<PlacementDecision>(|change, _| change.sides().filter_map(placement_of).collect());
        watches.on::<ManagedClusterSetBinding>(|change, view| {
            let bindings =
                change.sides().filter_map(|binding| Some((binding.namespace(), binding.cluster_set()?)));
            users_of(view, &bindings.collect())
        });
        watches.on::<ManagedClusterSet>(|change, view| {
            let differs = change.differs_in(|set| &set.spec);
            let sets = change.sides().filter(|_| differs).map(|set| set.name());
            users_of_sets(view, &sets.collect())
        });
        watches.on_readability::<ManagedCluster>(|view| view.keys::<Placement>(Query::ALL));
        watches.keep::<Scheduling>();
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let Some(placement) = view.get::<Placement>(key)? else { return leftovers::delete(key, view) };
        if placement.is_terminating() || is_disabled(&placement) {
            return Ok(Plan::nothing());
        }
        let bound = bound(view, &key.namespace)?;
        let mut decisions =
            view.list::<PlacementDecision>(Query::label(PLACEMENT_LABEL, &key.name).within(&key.namespace))?;
        decisions.extend(decisions_in_status(view, &placement, &decisions)?);
        loop {
            decisions.sort_by(|a, b| a.name().cmp(b.name()));
            let mut schedule = view.index(|scheduling: &mut Scheduling| {
                let Scheduling { fleet, schedules } = scheduling;
                let (bound, decisions) = (bound.as_slice(), decisions.as_slice());
                let input =
                    ScheduleInput { placement: &placement, bound, decisions, fleet, max_steps: MAX_STEPS };
                schedules.entry(key.clone()).or_default().schedule(&input, now)
            })?;
            let existing = decisions_to_create(view, &placement, &schedule)?;
            if existing.is_empty() {
                name_unreadable(&mut schedule.status, &placement, &bound, view)?;
                return Ok(plan::plan(&placement, &decisions, schedule));
            }
            decisions.extend(existing);
        }
    }
}

/// Adds the unreadable clusters to the condition `PlacementSatisfied`. A misconfigured placement keeps its
/// condition.
fn name_unreadable(
    status: &mut PlacementStatus,
    placement: &Placement,
    bound: &[Arc<ManagedClusterSet>],
    view: &impl View,
) -> Read<()> {
    if find_condition(&status.conditions, MISCONFIGURED).is_some_and(Condition::is_true) {
        return Ok(());
    }
    let asked = &placement.spec.cluster_sets;
    let sets = bound
        .iter()
        .map(|set| SetMembers::from_set(set))
        .filter(|set| asked.is_empty() || asked.iter().any(|name| name == set.name()));
    let clusters = unreadable::of_sets(&sets.collect::<Vec<_>>(), view)?;
    if let Some(satisfied) = status.conditions.iter_mut().find(|condition| condition.type_ == SATISFIED) {
        unreadable::append(&mut satisfied.message, &clusters);
    }
    Ok(())
}
