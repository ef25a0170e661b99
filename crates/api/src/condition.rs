//! Conditions: observations about aspects of an object, listed in its status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{Timestamp, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Unknown;
use crate::addon::v1alpha1::ManagedClusterAddOn;
use crate::cluster::v1::ManagedCluster;
use crate::cluster::v1beta1::Placement;
use crate::cluster::v1beta2::{ManagedClusterSet, ManagedClusterSetBinding};
use crate::gitops::v1alpha1::ConfigRepo;
use crate::names::QUALIFIED_NAME_PATTERN;
use crate::operator::v1::{ClusterManager, Klusterlet};
use crate::work::v1::ManifestWork;
use crate::work::v1alpha1::ManifestWorkReplicaSet;

/// Condition of an object.
///
/// The fields are those of `metav1.Condition`, with its limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type of the condition, in CamelCase or as foo.example.com/CamelCase.
    #[serde(rename = "type")]
    #[schemars(length(max = 316), extend("pattern" = QUALIFIED_NAME_PATTERN))]
    pub type_: String,
    /// True, False or Unknown.
    pub status: ConditionStatus,
    /// Reason for the status, as a CamelCase word.
    #[schemars(length(min = 1, max = 1024), extend("pattern" = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"))]
    pub reason: String,
    /// Message for people. May be empty.
    #[schemars(length(max = 32768))]
    pub message: String,
    /// Time at which the status last changed.
    #[serde(deserialize_with = "crate::lenient::time")]
    pub last_transition_time: Time,
    /// The `metadata.generation` for which the condition was set. If it is older than the object, the condition is
    /// out of date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

impl Default for Condition {
    fn default() -> Self {
        Self {
            type_: String::new(),
            status: ConditionStatus::Unknown,
            reason: String::new(),
            message: String::new(),
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
            observed_generation: None,
            unknown: Unknown::new(),
        }
    }
}

impl Condition {
    /// Returns true if the status is `True`.
    pub fn is_true(&self) -> bool {
        self.status == ConditionStatus::True
    }

    /// Returns true if the status is `False`, but not if it is `Unknown`.
    pub fn is_false(&self) -> bool {
        self.status == ConditionStatus::False
    }
}

open_enum! {
    /// Whether a condition holds (`metav1.ConditionStatus`).
    pub enum ConditionStatus {
        /// It holds.
        True = "True",
        /// It does not hold.
        False = "False",
        /// Nobody can say.
        Unknown = "Unknown",
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// The new value of a condition, for [`set_condition`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Type of the condition.
    pub type_: String,
    /// Status of the condition.
    pub status: ConditionStatus,
    /// Reason, as one word.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
    /// Observed generation of the object, if the writer tracks it.
    pub observed_generation: Option<i64>,
}

impl Observation {
    /// Returns an observation without a message or a generation.
    pub fn new(type_: &str, status: ConditionStatus, reason: &str) -> Self {
        Self {
            type_: type_.into(),
            status,
            reason: reason.into(),
            message: String::new(),
            observed_generation: None,
        }
    }

    /// Sets the human-readable message.
    #[must_use]
    pub fn message(self, message: impl Into<String>) -> Self {
        Self { message: message.into(), ..self }
    }

    /// Sets the observed generation of the object.
    #[must_use]
    pub fn at(self, generation: i64) -> Self {
        Self { observed_generation: Some(generation), ..self }
    }
}

/// Sets one condition. Returns true if anything changed.
///
/// The transition time changes only with the status. The list keeps its order, and a new condition is appended.
pub fn set_condition(conditions: &mut Vec<Condition>, observed: Observation, now: Timestamp) -> bool {
    let Observation { type_, status, reason, message, observed_generation } = observed;
    let now = Time(now.round(Unit::Second).unwrap_or(now));
    let Some(condition) = conditions.iter_mut().find(|c| c.type_ == type_) else {
        let unknown = Default::default();
        conditions.push(Condition {
            type_,
            status,
            reason,
            message,
            last_transition_time: now,
            observed_generation,
            unknown,
        });
        return true;
    };
    let before = condition.clone();
    if condition.status != status {
        condition.last_transition_time = now;
        condition.status = status;
    }
    condition.reason = reason;
    condition.message = message;
    condition.observed_generation = observed_generation;
    *condition != before
}

/// Returns the condition of a type, if it is set.
pub fn find_condition<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == type_)
}

/// A kind whose status has conditions.
pub trait Conditions {
    /// Returns the conditions, or none without a status.
    fn conditions(&self) -> &[Condition];

    /// Returns the condition of a type, if it is set.
    fn condition(&self, type_: &str) -> Option<&Condition> {
        find_condition(self.conditions(), type_)
    }

    /// Returns true if the condition of a type is set and `True`.
    fn holds(&self, type_: &str) -> bool {
        self.condition(type_).is_some_and(Condition::is_true)
    }
}

macro_rules! conditions {
    ($($kind:ty),+ $(,)?) => {
        $(impl Conditions for $kind {
            fn conditions(&self) -> &[Condition] {
                self.status.as_ref().map_or(&[], |status| &status.conditions)
            }
        })+
    };
}

conditions!(
    ClusterManager,
    ConfigRepo,
    Klusterlet,
    ManagedCluster,
    ManagedClusterAddOn,
    ManagedClusterSet,
    ManagedClusterSetBinding,
    ManifestWork,
    ManifestWorkReplicaSet,
    Placement,
);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn transition_time_moves_only_with_the_status() {
        let mut conditions = Vec::new();
        let ready = |status: ConditionStatus, message: &str| {
            Observation::new("Ready", status, "Because").message(message)
        };
        assert!(set_condition(&mut conditions, ready(ConditionStatus::True, "a"), at(10)));
        assert!(
            !set_condition(&mut conditions, ready(ConditionStatus::True, "a"), at(20)),
            "nothing changed"
        );
        assert!(set_condition(&mut conditions, ready(ConditionStatus::True, "b").at(3), at(30)));
        assert_eq!(conditions[0].last_transition_time, Time(at(10)));
        assert_eq!((conditions[0].message.as_str(), conditions[0].observed_generation), ("b", Some(3)));
        assert!(set_condition(&mut conditions, ready(ConditionStatus::False, "b"), at(40)));
        assert_eq!((conditions.len(), &conditions[0].last_transition_time), (1, &Time(at(40))));
    }

    #[test]
    fn times_are_whole_seconds_as_on_the_wire() {
        let mut conditions = Vec::new();
        set_condition(
            &mut conditions,
            Observation::new("Ready", ConditionStatus::True, "R"),
            Timestamp::from_millisecond(10_400).unwrap(),
        );
        let back: Vec<Condition> =
            serde_json::from_value(serde_json::to_value(&conditions).unwrap()).unwrap();
        assert_eq!(back, conditions);
        assert_eq!(find_condition(&back, "Ready").map(|c| &c.last_transition_time), Some(&Time(at(10))));
        assert_eq!(find_condition(&back, "Other"), None);
    }
}
