//! One full scheduling cycle over all clusters, which defines the decisions of a placement.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::decide::decide;
use super::fleet::Id;
use super::input::{Cycle, ScheduleInput};
use super::publish::DecisionWrite;
use super::published::Published;
use super::select::select;
use super::status;
use api::cluster::v1beta1::PlacementStatus;

/// The writes for a placement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule {
    /// The writes to its decisions, in steps. A step starts after the previous one has finished.
    pub steps: Vec<Vec<DecisionWrite>>,
    /// The status after the steps.
    pub status: PlacementStatus,
    /// The events to record.
    pub events: Vec<PlacementEvent>,
    /// The time to schedule again if no object changes.
    pub wake_at: Option<Timestamp>,
}

/// An event about a placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementEvent {
    /// True if a person should look.
    pub is_warning: bool,
    /// The reason, in CamelCase.
    pub reason: &'static str,
    /// The action, in CamelCase.
    pub action: &'static str,
    /// The name of the decision that was written.
    pub decision: String,
    /// The message, as a sentence.
    pub message: String,
}

/// Schedules a placement in a full cycle, without cached results.
pub fn schedule(input: &ScheduleInput<'_>, now: Timestamp) -> Schedule {
    let published = Published::read(input.decisions, input.fleet);
    let sets = input.sets();
    let scheduled = input.policy().and_then(|policy| {
        let cycle = Cycle { policy: &policy, sets: &sets, fleet: input.fleet, published: &published, now };
        let selection = select(&cycle, input.max_steps)?;
        let unsettled: BTreeSet<Id> =
            input.fleet.ids().filter(|id| selection.is_unsettled(&cycle, *id)).collect();
        Ok(decide(&cycle, input, &selection, Some(&unsettled)))
    });
    scheduled.unwrap_or_else(|refusal| status::misconfigured(input, &published, &refusal, now))
}
