//! Problems of configurations that a person must correct.

use api::condition::ConditionStatus::False;
use api::condition::{Condition, Observation};
use api::names::addon_conditions;

/// Reason if a configuration does not exist.
pub(super) const MISSING: &str = "ConfigurationMissing";
/// Reason if configurations cannot be rendered.
pub(super) const INVALID: &str = "ConfigurationInvalid";

/// The reason that no cluster gets a set of configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConfigProblem {
    /// The reason of a condition.
    pub(super) reason: &'static str,
    /// The correction that a person must make.
    pub(super) message: String,
}

impl ConfigProblem {
    /// Returns true if a condition reports a problem.
    pub(super) fn is_reported(condition: &Condition) -> bool {
        [MISSING, INVALID].contains(&condition.reason.as_str())
    }

    /// Returns the condition of a placement in the status of the add-on.
    pub(super) fn of_placement(&self) -> Observation {
        let message = format!("{}; until this is fixed, clusters keep what they run", self.message);
        Observation::new(addon_conditions::PROGRESSING, False, self.reason).message(message)
    }

    /// Returns the condition for an add-on with its own configuration.
    pub(super) fn of_cluster(&self) -> Observation {
        let message = format!("{}; until this is fixed, the cluster keeps what it runs", self.message);
        Observation::new(addon_conditions::CONFIGURED, False, self.reason).message(message)
    }
}
