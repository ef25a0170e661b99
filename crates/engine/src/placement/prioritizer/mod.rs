//! What makes one feasible cluster better than another.
//!
//! A prioritizer gives each cluster a score from -100 to 100; a cluster's total is the sum of scores times weights.

pub mod addon;
pub mod balance;
pub mod resource;
pub mod steady;

use crate::placement::Misconfigured;
use api::cluster::v1::ManagedCluster;
use api::cluster::v1beta1::{PrioritizerMode, PrioritizerPolicy, ScoreType};

pub use resource::{Range, Resource};

/// Highest score a prioritizer gives; the lowest is its negative.
pub const MAX_SCORE: i64 = 100;

/// Which prioritizer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Coordinate {
    /// Clusters few other placements have selected.
    Balance,
    /// Clusters this placement has selected.
    Steady,
    /// Clusters with much of a resource to give.
    Allocatable(Resource),
    /// Clusters an add-on scores high.
    AddOn {
        /// Name of the AddOnPlacementScore.
        resource: String,
        /// Name of the score in it.
        score: String,
    },
}

/// The name people see in explanations and events.
impl std::fmt::Display for Coordinate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Balance => f.write_str("Balance"),
            Self::Steady => f.write_str("Steady"),
            Self::Allocatable(Resource::Cpu) => f.write_str("ResourceAllocatableCPU"),
            Self::Allocatable(Resource::Memory) => f.write_str("ResourceAllocatableMemory"),
            Self::AddOn { resource, score } => write!(f, "AddOn/{resource}/{score}"),
        }
    }
}

/// Reads which prioritizers count and how much.
///
/// # Errors
/// A mode or a prioritizer nobody knows, or a coordinate that names none.
pub fn weights(policy: Option<&PrioritizerPolicy>) -> Result<Vec<(Coordinate, i32)>, Misconfigured> {
    let refused = |message: String| Misconfigured::new("", message);
    let mut weights = match policy.map(|policy| &policy.mode) {
        None | Some(PrioritizerMode::Additive) => vec![(Coordinate::Balance, 1), (Coordinate::Steady, 1)],
        Some(PrioritizerMode::Exact) => Vec::new(),
        Some(PrioritizerMode::Other(mode)) if mode.is_empty() => {
            vec![(Coordinate::Balance, 1), (Coordinate::Steady, 1)]
        }
        Some(PrioritizerMode::Other(mode)) => {
            return Err(refused(format!("incorrect prioritizer policy mode: {mode}")));
        }
    };
    for configuration in policy.map(|policy| policy.configurations.as_slice()).unwrap_or_default() {
        let Some(at) = &configuration.score_coordinate else {
            return Err(refused("scoreCoordinate field is required".into()));
        };
        let coordinate = match (&at.r#type, &at.add_on) {
            (ScoreType::BuiltIn, _) => built_in(&at.built_in)
                .ok_or_else(|| refused(format!("incorrect builtin prioritizer: {}", at.built_in)))?,
            (ScoreType::AddOn, Some(score)) => {
                Coordinate::AddOn { resource: score.resource_name.clone(), score: score.score_name.clone() }
            }
            (ScoreType::AddOn, None) => return Err(refused("addOn should not be empty".into())),
            (ScoreType::Other(other), _) => {
                return Err(refused(format!("incorrect builtin prioritizer: {other}")));
            }
        };
        // A built-in prioritizer is configured once, the last time; two equal add-on scores both count.
        let earlier =
            weights.iter_mut().find(|(known, _)| *known == coordinate && at.r#type == ScoreType::BuiltIn);
        match earlier {
            Some((_, weight)) => *weight = configuration.weight,
            None => weights.push((coordinate, configuration.weight)),
        }
    }
    weights.retain(|(_, weight)| *weight != 0);
    Ok(weights)
}

fn built_in(name: &str) -> Option<Coordinate> {
    match name {
        "Balance" => Some(Coordinate::Balance),
        "Steady" => Some(Coordinate::Steady),
        "ResourceAllocatableCPU" => Some(Coordinate::Allocatable(Resource::Cpu)),
        "ResourceAllocatableMemory" => Some(Coordinate::Allocatable(Resource::Memory)),
        _ => None,
    }
}

/// What scoring one cluster needs to know.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The cluster.
    pub cluster: &'a ManagedCluster,
    /// Whether this placement has selected it.
    pub decided: bool,
    /// How many decisions of other placements name it.
    pub used: u32,
}

/// What the scores of all clusters are measured against.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scale {
    /// The largest number of decisions of other placements any cluster on the hub is named in.
    pub most_used: u32,
    /// Least and most allocatable CPU of the feasible clusters.
    pub cpu: Range,
    /// Least and most allocatable memory of the feasible clusters.
    pub memory: Range,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(policy: serde_json::Value) -> String {
        let policy = serde_json::from_value(policy).unwrap();
        weights(Some(&policy))
            .unwrap()
            .iter()
            .map(|(coordinate, weight)| format!("{coordinate}={weight} "))
            .collect()
    }

    #[test]
    fn configurations_add_to_the_defaults_unless_exact() {
        let cpu =
            serde_json::json!({ "scoreCoordinate": { "builtIn": "ResourceAllocatableCPU" }, "weight": 2 });
        let steady = serde_json::json!({ "scoreCoordinate": { "builtIn": "Steady" }, "weight": 3 });
        assert_eq!(check(serde_json::json!({})), "Balance=1 Steady=1 ");
        assert_eq!(
            check(serde_json::json!({ "mode": "", "configurations": [cpu, steady] })),
            "Balance=1 Steady=3 ResourceAllocatableCPU=2 "
        );
        assert_eq!(
            check(serde_json::json!({ "mode": "Exact", "configurations": [cpu] })),
            "ResourceAllocatableCPU=2 "
        );
    }

    #[test]
    fn weight_zero_turns_a_prioritizer_off() {
        let off = serde_json::json!({ "scoreCoordinate": { "builtIn": "Balance" }, "weight": 0 });
        assert_eq!(check(serde_json::json!({ "configurations": [off] })), "Steady=1 ");
    }

    #[test]
    fn equal_addon_scores_both_count() {
        let score = serde_json::json!({ "scoreCoordinate": { "type": "AddOn", "addOn": { "resourceName": "r", "scoreName": "s" } } });
        assert_eq!(
            check(serde_json::json!({ "mode": "Exact", "configurations": [score, score] })),
            "AddOn/r/s=1 AddOn/r/s=1 "
        );
    }
}
