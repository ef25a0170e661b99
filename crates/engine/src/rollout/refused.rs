//! Errors for invalid fields.

use serde::Serialize;

/// An invalid field, with a hint at a valid value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{field}: {value:?} is refused: {reason}; {hint}")]
pub struct Refused {
    /// The path of the field in the strategy or policy.
    pub field: String,
    /// The value of the field.
    pub value: String,
    /// The reason that the value is invalid.
    pub reason: String,
    /// A hint at a valid value.
    pub hint: String,
}

impl Refused {
    /// Returns an error for the value of a field.
    pub fn new(
        field: impl Into<String>,
        value: &str,
        reason: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { field: field.into(), value: value.into(), reason: reason.into(), hint: hint.into() }
    }

    /// Adds the name of the policy that contains the field.
    pub(super) fn of(self, policy: &str) -> Self {
        if policy.is_empty() {
            return self;
        }
        Self { field: format!("{} of RolloutPolicy {policy}", self.field), ..self }
    }

    /// Returns an error for an unknown value of an enumeration.
    pub(super) fn unknown(field: &str, value: &str, values: &[&str]) -> Self {
        Self::new(field, value, "no such value", format!("write one of {}", values.join(", ")))
    }
}
