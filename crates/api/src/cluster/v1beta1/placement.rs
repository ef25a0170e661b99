//! Placement: a selection of clusters.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster::v1::TaintEffect;
use crate::{Condition, Unknown, names};

kind! {
    /// Placement selects clusters from the ManagedClusterSets that are bound to its namespace.
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

/// Clusters to select.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementSpec {
    /// Cluster sets to select from. Only sets that are bound to the namespace count. If empty, all bound sets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_sets: Vec<String>,
    /// Number of clusters to select. If absent, every cluster that passes the filters is selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number_of_clusters: Option<i32>,
    /// A cluster must match at least one of these predicates. An empty list lets every cluster pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub predicates: Vec<ClusterPredicate>,
    /// Policy that ranks the clusters if not all are selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prioritizer_policy: Option<PrioritizerPolicy>,
    /// Policy that divides the selected clusters evenly over the values of labels or claims. Upstream OCM accepts
    /// and ignores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread_policy: Option<SpreadPolicy>,
    /// Tolerations of taints. A cluster with a taint passes only if one of them tolerates the taint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Division of the decisions into groups that a rollout can follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_strategy: Option<DecisionStrategy>,
    /// Sort order of the decisions. Default: ClusterName.
    #[serde(default)]
    pub sort_by: SortBy,
    /// Minimum time between two changes of the decisions that only scores cause, such as 30s, 1m or 2h. Default:
    /// 1m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^[0-9]+[hms]$", "default" = "1m"))]
    pub score_rate_limit: Option<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ClusterPredicate is a condition on clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPredicate {
    /// A cluster must match the selector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_cluster_selector: Option<ClusterSelector>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ClusterSelector matches clusters by labels, claims and expressions. A cluster must match all that are
/// given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSelector {
    /// Selector of labels of the ManagedCluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub label_selector: Option<LabelSelector>,
    /// Selector of claims in the status of the ManagedCluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_selector: Option<ClusterClaimSelector>,
    /// Expressions that must be true for the ManagedCluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cel_selector: Option<ClusterCelSelector>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ClusterClaimSelector matches clusters by their claims.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterClaimSelector {
    /// A cluster must meet every requirement. A key is the name of a claim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ClusterCelSelector matches clusters by expressions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCelSelector {
    /// CEL expressions with the variable managedCluster and a boolean result. All must be true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cel_expressions: Vec<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// PrioritizerPolicy says which clusters are preferred when not all are wanted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrioritizerPolicy {
    /// Additive, which is the default, adds the configurations to the default prioritizers. Exact uses the
    /// configurations alone.
    #[serde(default)]
    pub mode: PrioritizerMode,
    /// Prioritizers with their weights.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub configurations: Vec<PrioritizerConfig>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// The mode says whether the default prioritizers, Balance and Steady with weight 1, count too.
    pub open enum PrioritizerMode {
        /// The default prioritizers count unless a configuration gives them another weight.
        Additive = "Additive",
        /// Only the prioritizers of the configurations count.
        Exact = "Exact",
    }
}

/// PrioritizerConfig gives a weight to a prioritizer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["scoreCoordinate"]))]
pub struct PrioritizerConfig {
    /// Source of the score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_coordinate: Option<ScoreCoordinate>,
    /// Weight from -10 to 10, by which the score is multiplied. A negative weight prefers low scores, and 0 turns
    /// the prioritizer off. The default is 1.
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

/// ScoreCoordinate says where a score comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["type"]))]
pub struct ScoreCoordinate {
    /// Type of the coordinate, which selects the field to use. Default: BuiltIn.
    #[serde(default)]
    pub r#type: ScoreType,
    /// Built-in prioritizer: Balance, Steady, ResourceAllocatableCPU or ResourceAllocatableMemory. Required for
    /// the type BuiltIn.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub built_in: String,
    /// Score of an add-on. Required for the type AddOn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on: Option<AddOnScore>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// The type says who computes a score.
    pub enum ScoreType {
        /// The scheduler computes the score.
        BuiltIn = "BuiltIn",
        /// An add-on writes the score into an AddOnPlacementScore.
        AddOn = "AddOn",
    }
}

/// AddOnScore names a score of an add-on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddOnScore {
    /// Name of the AddOnPlacementScore in the namespace of every cluster.
    pub resource_name: String,
    /// Name of the score in that object.
    pub score_name: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// SpreadPolicy divides the selected clusters evenly.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpreadPolicy {
    /// Constraints, each of which divides the clusters over the values of one label or claim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub spread_constraints: Vec<SpreadConstraint>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// SpreadConstraint divides clusters evenly over the values of a label or claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpreadConstraint {
    /// Name of the label or claim. Clusters with the same value are in the same domain.
    #[schemars(length(max = 316), extend("pattern" = names::QUALIFIED_NAME_PATTERN))]
    pub topology_key: String,
    /// Type of the key: a label or a claim.
    pub topology_key_type: TopologyKeyType,
    /// Maximum difference of selected clusters between two domains. Default: 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub max_skew: i32,
    /// Effect if the constraint cannot be met. Default: ScheduleAnyway.
    #[serde(default)]
    pub when_unsatisfiable: UnsatisfiableAction,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// The type says where the value of a topology key is read.
    pub enum TopologyKeyType {
        /// The key is a label of the ManagedCluster.
        Label = "Label",
        /// The key is a claim of the ManagedCluster.
        Claim = "Claim",
    }
}

open_enum! {
    /// The action says what happens when a constraint cannot be kept.
    pub enum UnsatisfiableAction {
        /// The cluster is selected although the constraint is not kept.
        ScheduleAnyway = "ScheduleAnyway",
        /// The cluster is not selected.
        DoNotSchedule = "DoNotSchedule",
    }
}

/// Toleration lets clusters with matching taints pass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    /// Key of the taint. An empty key with the operator Exists matches every taint.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 316), extend("pattern" = names::QUALIFIED_NAME_PATTERN))]
    pub key: String,
    /// Comparison of the value. Default: Equal.
    #[serde(default)]
    pub operator: TolerationOperator,
    /// Value of the taint, for the operator Equal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub value: String,
    /// Effect of the taint. If empty, every effect matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
    /// Seconds after the addition of the taint during which it is tolerated. If absent, it is always tolerated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// The operator says how a toleration compares values.
    pub open enum TolerationOperator {
        /// The values must be equal.
        Equal = "Equal",
        /// Every value matches.
        Exists = "Exists",
    }
}

/// DecisionStrategy says how decisions are split into groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionStrategy {
    /// Definition of the groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_strategy: Option<GroupStrategy>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// GroupStrategy defines named groups and the size of the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupStrategy {
    /// Named groups, which come first, in this order. Clusters that are in none of them form groups at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decision_groups: Vec<DecisionGroup>,
    /// Maximum size of a group: a number, or a percentage of the selected clusters. The default is 100%.
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

/// DecisionGroup is a named group of decisions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionGroup {
    /// Name of the group, as in the label `cluster.open-cluster-management.io/decision-group-name`.
    #[schemars(extend("pattern" = "^[a-zA-Z0-9][-A-Za-z0-9_.]{0,61}[a-zA-Z0-9]$"))]
    pub group_name: String,
    /// Selector of the clusters of the group among the selected clusters of the placement.
    pub group_cluster_selector: GroupClusterSelector,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// GroupClusterSelector matches the clusters of a group by labels and claims.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupClusterSelector {
    /// Selector of labels of the ManagedCluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub label_selector: Option<LabelSelector>,
    /// Selector of claims in the status of the ManagedCluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_selector: Option<ClusterClaimSelector>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// SortBy says how decisions are sorted.
    pub enum SortBy {
        /// Decisions are sorted by the name of the cluster.
        ClusterName = "ClusterName",
        /// Decisions are sorted by score, the highest first.
        Score = "Score",
    }
}

/// Result of the selection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementStatus {
    /// Number of selected clusters.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub number_of_selected_clusters: i32,
    /// Groups of the decisions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decision_groups: Vec<DecisionGroupStatus>,
    /// `PlacementSatisfied` is true if enough clusters were found, and `PlacementMisconfigured` if the spec has a
    /// mistake.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Time at which scores last changed the decisions. Upstream OCM has no such field.
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

/// DecisionGroupStatus is one group of decisions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionGroupStatus {
    /// Position of the group, from 0.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub decision_group_index: i32,
    /// Name of the group. Empty for clusters that are in no named group.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub decision_group_name: String,
    /// PlacementDecisions with the clusters of the group.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub decisions: Vec<String>,
    /// Number of clusters in the group.
    #[serde(default, rename = "clusterCount")]
    pub cluster_count: i32,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
