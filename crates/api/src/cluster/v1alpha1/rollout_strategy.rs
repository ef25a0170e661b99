//! The rollout strategies of OCM.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Unknown;
use crate::names::COUNT_PATTERN;

const DEADLINE_PATTERN: &str = "^(([0-9])+[h|m|s])|None$";

/// RolloutStrategy says in which order and how fast a change reaches the selected clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStrategy {
    /// Type of the strategy. Default: All.
    #[serde(default)]
    pub r#type: RolloutType,
    /// Options for the type All.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all: Option<RolloutAll>,
    /// Options for the type Progressive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progressive: Option<RolloutProgressive>,
    /// Options for the type ProgressivePerGroup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progressive_per_group: Option<RolloutProgressivePerGroup>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// The type of a rollout strategy says how clusters follow each other.
    pub enum RolloutType {
        /// All clusters get the change at once.
        All = "All",
        /// Clusters get the change by name, at most maxConcurrency at a time. Mandatory decision groups go
        /// first.
        Progressive = "Progressive",
        /// Decision groups get the change one after the other. Mandatory decision groups go first.
        ProgressivePerGroup = "ProgressivePerGroup",
    }
}

/// RolloutAll has the options of the type All.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutAll {
    /// No effect for the type All. It is present because all strategies share it.
    #[serde(default = "zero_duration")]
    pub min_success_time: String,
    /// A cluster that has not succeeded after this time counts as timed out, such as 10m or 2h. None, which
    /// is the default, waits without a limit.
    #[serde(default = "no_deadline")]
    #[schemars(extend("pattern" = DEADLINE_PATTERN))]
    pub progress_deadline: String,
    /// No effect for the type All. It is present because all strategies share it.
    #[serde(deserialize_with = "crate::lenient::int_or_string", default)]
    #[schemars(extend("pattern" = COUNT_PATTERN))]
    pub max_failures: IntOrString,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// RolloutProgressive has the options of the type Progressive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutProgressive {
    /// A cluster must succeed for this time before its slot goes to the next one, such as 5m. The default is
    /// 0.
    #[serde(default = "zero_duration")]
    pub min_success_time: String,
    /// A cluster that has not succeeded after this time counts as timed out, such as 10m or 2h. None, which
    /// is the default, waits without a limit.
    #[serde(default = "no_deadline")]
    #[schemars(extend("pattern" = DEADLINE_PATTERN))]
    pub progress_deadline: String,
    /// Number or percentage of clusters that can fail or time out. If more do, the rollout stops. Default: 0.
    #[serde(deserialize_with = "crate::lenient::int_or_string", default)]
    #[schemars(extend("pattern" = COUNT_PATTERN))]
    pub max_failures: IntOrString,
    /// Every cluster of these decision groups must succeed before another cluster starts. The groups go one
    /// after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mandatory_decision_groups: Vec<MandatoryDecisionGroup>,
    /// Maximum number or percentage of clusters that are updated at the same time. If absent, the group size of
    /// the placement counts.
    #[serde(
        deserialize_with = "crate::lenient::optional_int_or_string",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("pattern" = COUNT_PATTERN))]
    pub max_concurrency: Option<IntOrString>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// RolloutProgressivePerGroup has the options of the type ProgressivePerGroup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutProgressivePerGroup {
    /// Every cluster of a group must succeed for this time before the next group starts, such as 5m. The
    /// default is 0.
    #[serde(default = "zero_duration")]
    pub min_success_time: String,
    /// A cluster that has not succeeded after this time counts as timed out, such as 10m or 2h. None, which
    /// is the default, waits without a limit.
    #[serde(default = "no_deadline")]
    #[schemars(extend("pattern" = DEADLINE_PATTERN))]
    pub progress_deadline: String,
    /// Number or percentage of clusters of a group that can fail or time out. If more do, the rollout stops.
    /// Default: 0.
    #[serde(deserialize_with = "crate::lenient::int_or_string", default)]
    #[schemars(extend("pattern" = COUNT_PATTERN))]
    pub max_failures: IntOrString,
    /// Decision groups that go first, one after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mandatory_decision_groups: Vec<MandatoryDecisionGroup>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// MandatoryDecisionGroup names a decision group by its name or by its index.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MandatoryDecisionGroup {
    /// Name of the group. If set, the index is ignored.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group_name: String,
    /// Index of the group among the decision groups, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_index: Option<i32>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

fn zero_duration() -> String {
    "0".into()
}

fn no_deadline() -> String {
    "None".into()
}
