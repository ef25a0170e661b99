//! The rollout strategies of OCM.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Unknown;

const COUNT_PATTERN: &str = "^((100|[0-9]{1,2})%|[0-9]+)$";
const DEADLINE_PATTERN: &str = "^(([0-9])+[h|m|s])|None$";

/// In which order and how fast a change reaches the selected clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStrategy {
    /// Which of the strategies counts.
    #[serde(default)]
    pub r#type: RolloutType,
    /// Options of All.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all: Option<RolloutAll>,
    /// Options of Progressive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progressive: Option<RolloutProgressive>,
    /// Options of ProgressivePerGroup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progressive_per_group: Option<RolloutProgressivePerGroup>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// The strategies.
    pub enum RolloutType {
        /// All clusters at once.
        All = "All",
        /// Cluster by cluster, the mandatory decision groups first.
        Progressive = "Progressive",
        /// Decision group by decision group, the mandatory ones first.
        ProgressivePerGroup = "ProgressivePerGroup",
    }
}

/// All clusters at once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutAll {
    /// Has no effect here.
    #[serde(default = "zero_duration")]
    pub min_success_time: String,
    /// How long a cluster may take before it counts as failed, such as 10m; None waits for ever.
    #[serde(default = "no_deadline")]
    #[schemars(extend("pattern" = DEADLINE_PATTERN))]
    pub progress_deadline: String,
    /// Has no effect here.
    #[serde(deserialize_with = "crate::lenient::int_or_string", default)]
    #[schemars(extend("pattern" = COUNT_PATTERN))]
    pub max_failures: IntOrString,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Cluster by cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutProgressive {
    /// How long a cluster must have been successful before its place goes to the next one.
    #[serde(default = "zero_duration")]
    pub min_success_time: String,
    /// How long a cluster may take before it counts as failed, such as 10m; None waits for ever.
    #[serde(default = "no_deadline")]
    #[schemars(extend("pattern" = DEADLINE_PATTERN))]
    pub progress_deadline: String,
    /// How many clusters, as a number or a percentage of all, may fail before the rollout stops.
    #[serde(deserialize_with = "crate::lenient::int_or_string", default)]
    #[schemars(extend("pattern" = COUNT_PATTERN))]
    pub max_failures: IntOrString,
    /// Groups that must succeed before any other cluster starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mandatory_decision_groups: Vec<MandatoryDecisionGroup>,
    /// How many clusters, as a number or a percentage of all, may be under way at once; the placement's group
    /// size where absent.
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

/// Decision group by decision group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutProgressivePerGroup {
    /// How long every cluster of a group must have been successful before the next group starts.
    #[serde(default = "zero_duration")]
    pub min_success_time: String,
    /// How long a cluster may take before it counts as failed, such as 10m; None waits for ever.
    #[serde(default = "no_deadline")]
    #[schemars(extend("pattern" = DEADLINE_PATTERN))]
    pub progress_deadline: String,
    /// How many clusters of a group, as a number or a percentage, may fail before the rollout stops.
    #[serde(deserialize_with = "crate::lenient::int_or_string", default)]
    #[schemars(extend("pattern" = COUNT_PATTERN))]
    pub max_failures: IntOrString,
    /// Groups that go first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mandatory_decision_groups: Vec<MandatoryDecisionGroup>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A decision group, by name or by index.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MandatoryDecisionGroup {
    /// Name of the group; counts where it is not empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group_name: String,
    /// Index of the group.
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
