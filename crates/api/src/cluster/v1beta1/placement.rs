//! Placement: which clusters are wanted.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster::v1::TaintEffect;
use crate::{Condition, Unknown, names};

kind! {
    /// Selects clusters from the sets bound to its namespace.
    ///
    /// The decisions are written to PlacementDecisions, split into groups that a rollout can follow.
    Placement {
        group: names::CLUSTER_GROUP,
        version: "v1beta1",
        plural: "placements",
        scope: Namespaced,
        spec(required): PlacementSpec,
        status: PlacementStatus,
        columns: [
            ("Succeeded", "string", ".status.conditions[?(@.type==\"PlacementSatisfied\")].status"),
            ("Reason", "string", ".status.conditions[?(@.type==\"PlacementSatisfied\")].reason"),
            ("SelectedClusters", "integer", ".status.numberOfSelectedClusters"),
        ],
    }
}

/// Which clusters are wanted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementSpec {
    /// The sets to select from, of those bound to the namespace; all of them where empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_sets: Vec<String>,
    /// How many clusters are wanted; all that fit where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number_of_clusters: Option<i32>,
    /// What a cluster must be like. One of them is enough; none means any cluster will do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub predicates: Vec<ClusterPredicate>,
    /// Which clusters are better than others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prioritizer_policy: Option<PrioritizerPolicy>,
    /// How the clusters should be spread; accepted without effect by Open Cluster Management.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread_policy: Option<SpreadPolicy>,
    /// Taints of clusters that do no harm.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// How the decisions are split into groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_strategy: Option<DecisionStrategy>,
    /// By what the decisions are sorted.
    #[serde(default)]
    pub sort_by: SortBy,
    /// How often changed scores may change the decisions, such as 1m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^[0-9]+[hms]$", "default" = "1m"))]
    pub score_rate_limit: Option<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// What a cluster must be like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPredicate {
    /// What the cluster must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_cluster_selector: Option<ClusterSelector>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Labels, claims and expressions a cluster must match, all of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSelector {
    /// Labels of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub label_selector: Option<LabelSelector>,
    /// Claims of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_selector: Option<ClusterClaimSelector>,
    /// Expressions over the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cel_selector: Option<ClusterCelSelector>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Claims a cluster must match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterClaimSelector {
    /// Requirements on claims, all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Expressions a cluster must match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCelSelector {
    /// CEL expressions over managedCluster, all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cel_expressions: Vec<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Which clusters are better than others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrioritizerPolicy {
    /// Whether the default prioritizers count too.
    #[serde(default)]
    pub mode: PrioritizerMode,
    /// The prioritizers and their weights.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub configurations: Vec<PrioritizerConfig>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// Whether the default prioritizers, Balance and Steady with weight 1, count too.
    pub open enum PrioritizerMode {
        /// They do, unless a configuration says otherwise.
        Additive = "Additive",
        /// Only what is configured counts.
        Exact = "Exact",
    }
}

/// One prioritizer and its weight.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["scoreCoordinate"]))]
pub struct PrioritizerConfig {
    /// Where the score comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_coordinate: Option<ScoreCoordinate>,
    /// How much the score counts; negative prefers low scores, 0 turns the prioritizer off.
    #[serde(default = "one")]
    #[schemars(range(min = -10, max = 10))]
    pub weight: i32,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

fn one() -> i32 {
    1
}

/// Where a score comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["type"]))]
pub struct ScoreCoordinate {
    /// Which of the two counts.
    #[serde(default)]
    pub r#type: ScoreType,
    /// Name of a built-in prioritizer: Balance, Steady, ResourceAllocatableCPU, ResourceAllocatableMemory.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub built_in: String,
    /// A score of an add-on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on: Option<AddOnScore>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// Who gives a score.
    pub enum ScoreType {
        /// The scheduler.
        BuiltIn = "BuiltIn",
        /// An add-on, by AddOnPlacementScore.
        AddOn = "AddOn",
    }
}

/// A score of an add-on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddOnScore {
    /// Name of the AddOnPlacementScore in the namespace of every cluster.
    pub resource_name: String,
    /// Name of the score in it.
    pub score_name: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// How the clusters should be spread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpreadPolicy {
    /// Over what they should be spread.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub spread_constraints: Vec<SpreadConstraint>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Over what clusters should be spread, and how evenly.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpreadConstraint {
    /// The label or claim whose values are the places.
    #[schemars(length(max = 316), extend("pattern" = names::QUALIFIED_NAME_PATTERN))]
    pub topology_key: String,
    /// Whether it is a label or a claim.
    pub topology_key_type: TopologyKeyType,
    /// By how many clusters two places may differ.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub max_skew: i32,
    /// What happens when it cannot be kept.
    #[serde(default)]
    pub when_unsatisfiable: UnsatisfiableAction,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// What a topology key is.
    pub enum TopologyKeyType {
        /// A label of the cluster.
        Label = "Label",
        /// A claim of the cluster.
        Claim = "Claim",
    }
}

open_enum! {
    /// What happens when a constraint cannot be kept.
    pub enum UnsatisfiableAction {
        /// The cluster is selected all the same.
        ScheduleAnyway = "ScheduleAnyway",
        /// The cluster is not selected.
        DoNotSchedule = "DoNotSchedule",
    }
}

/// Taints that do no harm.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    /// Key of the taint; empty with the operator Exists means every key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 316), extend("pattern" = names::QUALIFIED_NAME_PATTERN))]
    pub key: String,
    /// How the value is compared.
    #[serde(default)]
    pub operator: TolerationOperator,
    /// Value of the taint.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub value: String,
    /// Effect of the taint; any where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
    /// For how long after the taint was added; for ever where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// How a toleration compares values.
    pub open enum TolerationOperator {
        /// The values must be equal.
        Equal = "Equal",
        /// Any value will do.
        Exists = "Exists",
    }
}

/// How decisions are split into groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionStrategy {
    /// The groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_strategy: Option<GroupStrategy>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Named groups, and how large a group may be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupStrategy {
    /// Named groups, in this order; the clusters in none of them come last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decision_groups: Vec<DecisionGroup>,
    /// The largest size of a group, as a number or a percentage of the selected clusters.
    #[serde(deserialize_with = "crate::lenient::int_or_string", default = "everything")]
    #[schemars(extend("pattern" = "^((100|[1-9][0-9]{0,1})%|[1-9][0-9]*)$"))]
    pub clusters_per_decision_group: IntOrString,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

fn everything() -> IntOrString {
    IntOrString::String("100%".into())
}

/// A named group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionGroup {
    /// Name of the group.
    #[schemars(extend("pattern" = "^[a-zA-Z0-9][-A-Za-z0-9_.]{0,61}[a-zA-Z0-9]$"))]
    pub group_name: String,
    /// Which of the selected clusters are in it.
    pub group_cluster_selector: GroupClusterSelector,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Labels and claims of the clusters of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupClusterSelector {
    /// Labels of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub label_selector: Option<LabelSelector>,
    /// Claims of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_selector: Option<ClusterClaimSelector>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// By what decisions are sorted.
    pub enum SortBy {
        /// By the name of the cluster.
        ClusterName = "ClusterName",
        /// By its score.
        Score = "Score",
    }
}

/// What was decided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementStatus {
    /// How many clusters were selected.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub number_of_selected_clusters: i32,
    /// The groups they were split into.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decision_groups: Vec<DecisionGroupStatus>,
    /// Whether enough clusters were found, and whether the placement makes sense.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// When scores last changed the decisions.
    #[serde(
        deserialize_with = "crate::lenient::optional_time",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub last_score_update_time: Option<Time>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// One group of decisions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionGroupStatus {
    /// Place of the group in the order of the groups, from 0.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub decision_group_index: i32,
    /// Name of the group; empty for the clusters that are in no named one.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub decision_group_name: String,
    /// Names of the PlacementDecisions that hold the group.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub decisions: Vec<String>,
    /// How many clusters are in the group.
    #[serde(default, rename = "clusterCount")]
    pub cluster_count: i32,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
