//! The strategy All: every cluster at once.

use jiff::SignedDuration;
use serde::Serialize;

use super::{Failures, Limits, StageRule};
use crate::rollout::refused::Refused;
use crate::rollout::size::{Size, read_deadline};
use api::cluster::v1alpha1::RolloutAll;

/// Every cluster starts at once, reachable or not, and no failure stops the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct All {
    /// The time without an outcome after which a cluster has timed out; `None` waits indefinitely.
    pub deadline: Option<SignedDuration>,
}

impl All {
    pub(super) fn read(wire: Option<&RolloutAll>, _: Option<Size>) -> Result<Self, Refused> {
        let Some(wire) = wire else { return Ok(Self::default()) };
        let RolloutAll { min_success_time: _, progress_deadline, max_failures: _, unknown: _ } = wire;
        Ok(Self { deadline: read_deadline("all.progressDeadline", progress_deadline)? })
    }

    pub(super) fn stages(&self) -> Vec<StageRule<'_>> {
        let all = Some("all");
        vec![StageRule { groups: None, together: all, slots: Size::ALL, failures: Failures::Unlimited }]
    }

    pub(super) fn limits(&self) -> Limits {
        // There is no later stage to wait for a soak.
        Limits { soak: None, deadline: self.deadline, start_unreachable: true }
    }
}
