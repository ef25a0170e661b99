//! The strategy Progressive: a few clusters at a time.

use serde::Serialize;

use super::{Failures, Limits, Mandatory, Options, StageRule};
use crate::rollout::refused::Refused;
use crate::rollout::size::{Size, read_deadline, read_soak};
use api::cluster::v1alpha1::RolloutProgressive;

/// Mandatory groups start one after another. The clusters of all other groups follow by name, a few at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Progressive {
    /// The options for every cluster; `failures` counts over all clusters.
    #[serde(flatten)]
    pub options: Options,
    /// Groups that start first and tolerate no failure.
    pub mandatory: Vec<Mandatory>,
    /// The number of clusters outside the mandatory groups that may be in flight; `None` is all.
    pub concurrency: Option<Size>,
}

impl Progressive {
    /// Parses the wire type. Without `maxConcurrency`, OCM uses the size of the placement's decision groups.
    pub(super) fn read(wire: Option<&RolloutProgressive>, group_size: Option<Size>) -> Result<Self, Refused> {
        let default = RolloutProgressive::default();
        let RolloutProgressive {
            min_success_time,
            progress_deadline,
            max_failures,
            mandatory_decision_groups,
            max_concurrency,
            unknown: _,
        } = wire.unwrap_or(&default);
        let options = Options {
            soak: read_soak("progressive.minSuccessTime", min_success_time)?,
            deadline: read_deadline("progressive.progressDeadline", progress_deadline)?,
            failures: Size::read("progressive.maxFailures", max_failures)?,
        };
        let concurrency = Size::read_concurrency("progressive.maxConcurrency", max_concurrency.as_ref())?;
        let mandatory = Mandatory::read(mandatory_decision_groups);
        Ok(Self { options, mandatory, concurrency: concurrency.or(group_size) })
    }

    pub(super) fn stages(&self) -> Vec<StageRule<'_>> {
        let rest = StageRule {
            groups: None,
            together: Some("rest"),
            slots: self.concurrency.unwrap_or(Size::ALL),
            failures: Failures::OfAll(self.options.failures),
        };
        vec![StageRule::mandatory(&self.mandatory), rest]
    }

    pub(super) fn limits(&self) -> Limits {
        self.options.limits()
    }
}
