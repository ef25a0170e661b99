//! AddOnPlacementScore: scores of one cluster that placements may rank by.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, Unknown, names};

kind! {
    /// AddOnPlacementScore holds the scores that an add-on gives to the cluster of its namespace.
    /// Prioritizers of placements read them.
    AddOnPlacementScore {
        group: names::CLUSTER_GROUP,
        version: "v1alpha1",
        plural: "addonplacementscores",
        scope: Namespaced,
        status: AddOnPlacementScoreStatus,
    }
}

/// Scores of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddOnPlacementScoreStatus {
    /// Conditions of the add-on that computes the scores. Placements do not read them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Scores by name. Prioritizers refer to the names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub scores: Vec<AddOnPlacementScoreItem>,
    /// Time after which the scores count as 0. If absent, they do not expire.
    #[serde(
        deserialize_with = "crate::lenient::optional_time",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub valid_until: Option<Time>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// AddOnPlacementScoreItem is one score of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AddOnPlacementScoreItem {
    /// Name by which a prioritizer refers to the score in `scoreCoordinate.addOn.scoreName`.
    pub name: String,
    /// Score from -100 to 100. Higher is better.
    #[schemars(range(min = -100, max = 100))]
    pub value: i32,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
