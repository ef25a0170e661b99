//! The refusal of a field that cannot be used.

use serde::Serialize;

/// A field that cannot be used, with a valid value to write instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{field}: {value:?} is refused: {reason}; {hint}")]
pub struct Refused {
    /// The field, as a path from the strategy or policy.
    pub field: String,
    /// The value of the field.
    pub value: String,
    /// Why it cannot be used.
    pub reason: String,
    /// A valid value.
    pub hint: String,
}

impl Refused {
    /// Refuses the value of a field.
    pub fn new(
        field: impl Into<String>,
        value: &str,
        reason: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { field: field.into(), value: value.into(), reason: reason.into(), hint: hint.into() }
    }

    /// Returns the refusal with the name of the policy that has the field.
    pub(super) fn of(self, policy: &str) -> Self {
        if policy.is_empty() {
            return self;
        }
        Self { field: format!("{} of RolloutPolicy {policy}", self.field), ..self }
    }

    /// Refuses a value of an enumeration.
    pub(super) fn unknown(field: &str, value: &str, values: &[&str]) -> Self {
        Self::new(field, value, "no such value", format!("write one of {}", values.join(", ")))
    }
}
