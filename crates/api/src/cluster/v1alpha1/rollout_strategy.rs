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
    /// The type says which strategy is used. The default is All.
    #[serde(default)]
    pub r#type: RolloutType,
    /// These options count when the type is All.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all: Option<RolloutAll>,
    /// These options count when the type is Progressive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progressive: Option<RolloutProgressive>,
    /// These options count when the type is ProgressivePerGroup.
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
    /// The field exists because all strategies share it. It has no effect when the type is All.
    #[serde(default = "zero_duration")]
    pub min_success_time: String,
    /// A cluster that has not succeeded after this time counts as timed out, such as 10m or 2h. None, which
    /// is the default, waits without a limit.
    #[serde(default = "no_deadline")]
    #[schemars(extend("pattern" = DEADLINE_PATTERN))]
    pub progress_deadline: String,
    /// The field exists because all strategies share it. It has no effect when the type is All.
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
    /// The rollout stops when more clusters than this fail or time out. It is a number or a percentage of the
    /// clusters, and 0 by default.
    #[serde(deserialize_with = "crate::lenient::int_or_string", default)]
    #[schemars(extend("pattern" = COUNT_PATTERN))]
    pub max_failures: IntOrString,
    /// Every cluster of these decision groups must succeed before another cluster starts. The groups go one
    /// after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mandatory_decision_groups: Vec<MandatoryDecisionGroup>,
    /// At most so many clusters are updated at the same time. It is a number or a percentage of the clusters.
    /// Without it, the group size of the placement counts.
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
    /// The rollout stops when more clusters of a group than this fail or time out. It is a number or a
    /// percentage of the clusters of the group, and 0 by default.
    #[serde(deserialize_with = "crate::lenient::int_or_string", default)]
    #[schemars(extend("pattern" = COUNT_PATTERN))]
    pub max_failures: IntOrString,
    /// These decision groups go first, one after the other.
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
    /// This is the name of the group. The index counts only when the name is empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group_name: String,
    /// This is the index of the group among the decision groups, from 0.
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
