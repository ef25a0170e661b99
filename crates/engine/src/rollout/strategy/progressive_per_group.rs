//! The strategy ProgressivePerGroup: one decision group at a time.

use serde::Serialize;

use super::{Failures, Limits, Mandatory, Options, StageRule};
use crate::rollout::refused::Refused;
use crate::rollout::size::{Size, read_deadline, read_soak};
use api::cluster::v1alpha1::RolloutProgressivePerGroup;

/// Mandatory groups start one after another. The other groups follow, each as a whole, one after another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgressivePerGroup {
    /// The options for every cluster; `failures` counts within a group.
    #[serde(flatten)]
    pub options: Options,
    /// Groups that start first and tolerate no failure.
    pub mandatory: Vec<Mandatory>,
}

impl ProgressivePerGroup {
    pub(super) fn read(wire: Option<&RolloutProgressivePerGroup>, _: Option<Size>) -> Result<Self, Refused> {
        let default = RolloutProgressivePerGroup::default();
        let RolloutProgressivePerGroup {
            min_success_time,
            progress_deadline,
            max_failures,
            mandatory_decision_groups,
            unknown: _,
        } = wire.unwrap_or(&default);
        let options = Options {
            soak: read_soak("progressivePerGroup.minSuccessTime", min_success_time)?,
            deadline: read_deadline("progressivePerGroup.progressDeadline", progress_deadline)?,
            failures: Size::read("progressivePerGroup.maxFailures", max_failures)?,
        };
        Ok(Self { options, mandatory: Mandatory::read(mandatory_decision_groups) })
    }

    pub(super) fn stages(&self) -> Vec<StageRule<'_>> {
        let rest = StageRule {
            groups: None,
            together: None,
            slots: Size::ALL,
            failures: Failures::OfStage(self.options.failures),
        };
        vec![StageRule::mandatory(&self.mandatory), rest]
    }

    pub(super) fn limits(&self) -> Limits {
        self.options.limits()
    }
}
