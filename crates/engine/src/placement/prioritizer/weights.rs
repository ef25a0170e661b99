//! The prioritizer policy of a placement: the active prioritizers and their weights.

use super::{BUILT_IN, Prioritizer, addon, balance, steady};
use crate::placement::Misconfigured;
use api::cluster::v1beta1::{
    AddOnScore, PrioritizerConfig, PrioritizerMode, PrioritizerPolicy, ScoreCoordinate, ScoreType,
};

/// A prioritizer and its weight in a placement.
#[derive(Debug)]
pub struct Weighted {
    pub prioritizer: &'static Prioritizer,
    /// The score to read, for the add-on prioritizer.
    pub add_on: Option<ScoreKey>,
    /// The weight of its scores; never 0.
    pub weight: i32,
}

/// A score that an add-on publishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScoreKey {
    /// The name of the AddOnPlacementScore.
    pub resource: String,
    /// The name of the score in it.
    pub score: String,
}

/// Prints the name that appears in explanations and events.
impl std::fmt::Display for Weighted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.add_on {
            Some(ScoreKey { resource, score }) => write!(f, "{}/{resource}/{score}", self.prioritizer.name),
            None => f.write_str(self.prioritizer.name),
        }
    }
}

impl Weighted {
    fn built_in(prioritizer: &'static Prioritizer, weight: i32) -> Self {
        Self { prioritizer, add_on: None, weight }
    }
}

/// Parses the active prioritizers and their weights.
///
/// # Errors
/// Fails for an unknown mode, an unknown prioritizer, or a coordinate that names none.
pub(crate) fn weights(policy: Option<&PrioritizerPolicy>) -> Result<Vec<Weighted>, Misconfigured> {
    let defaults = || vec![Weighted::built_in(&balance::BALANCE, 1), Weighted::built_in(&steady::STEADY, 1)];
    let Some(PrioritizerPolicy { mode, configurations, unknown: _ }) = policy else { return Ok(defaults()) };
    let mut weights = match mode {
        PrioritizerMode::Additive => defaults(),
        PrioritizerMode::Exact => Vec::new(),
        PrioritizerMode::Other(mode) if mode.is_empty() => defaults(),
        PrioritizerMode::Other(mode) => {
            return Err(refused(format!("incorrect prioritizer policy mode: {mode}")));
        }
    };
    for PrioritizerConfig { score_coordinate, weight, unknown: _ } in configurations {
        let Some(coordinate) = score_coordinate else {
            return Err(refused("scoreCoordinate field is required".into()));
        };
        let (prioritizer, add_on) = read(coordinate)?;
        // A built-in prioritizer is configured once, and the last entry wins. Two equal add-on scores both
        // count.
        let earlier = weights.iter_mut().find(|known| {
            add_on.is_none() && known.add_on.is_none() && known.prioritizer.name == prioritizer.name
        });
        match earlier {
            Some(earlier) => earlier.weight = *weight,
            None => weights.push(Weighted { prioritizer, add_on, weight: *weight }),
        }
    }
    weights.retain(|weighted| weighted.weight != 0);
    Ok(weights)
}

fn read(coordinate: &ScoreCoordinate) -> Result<(&'static Prioritizer, Option<ScoreKey>), Misconfigured> {
    let ScoreCoordinate { r#type, built_in, add_on, unknown: _ } = coordinate;
    match (r#type, add_on) {
        (ScoreType::BuiltIn, _) => {
            let row = BUILT_IN
                .iter()
                .copied()
                .find(|row| row.name == built_in)
                .ok_or_else(|| refused(format!("incorrect builtin prioritizer: {built_in}")))?;
            Ok((row, None))
        }
        (ScoreType::AddOn, Some(AddOnScore { resource_name, score_name, unknown: _ })) => {
            let score = ScoreKey { resource: resource_name.clone(), score: score_name.clone() };
            Ok((&addon::ADD_ON, Some(score)))
        }
        (ScoreType::AddOn, None) => Err(refused("addOn should not be empty".into())),
        (ScoreType::Other(other), _) => Err(refused(format!("incorrect builtin prioritizer: {other}"))),
    }
}

fn refused(message: String) -> Misconfigured {
    Misconfigured::new("", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(policy: serde_json::Value) -> String {
        let policy = serde_json::from_value(policy).unwrap();
        let weights = weights(Some(&policy)).unwrap();
        weights.iter().map(|weighted| format!("{weighted}={} ", weighted.weight)).collect()
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
    fn a_weight_of_zero_disables_a_prioritizer() {
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

    #[test]
    fn a_coordinate_that_names_no_prioritizer_is_refused() {
        for (coordinate, message) in [
            (serde_json::json!({ "builtIn": "Blance" }), ":incorrect builtin prioritizer: Blance"),
            (serde_json::json!({ "type": "AddOn" }), ":addOn should not be empty"),
            (serde_json::json!({ "type": "Magic" }), ":incorrect builtin prioritizer: Magic"),
            (serde_json::Value::Null, ":scoreCoordinate field is required"),
        ] {
            let policy = serde_json::json!({ "configurations": [{ "scoreCoordinate": coordinate }] });
            let policy = serde_json::from_value(policy).unwrap();
            assert_eq!(weights(Some(&policy)).unwrap_err().to_string(), message);
        }
    }
}
