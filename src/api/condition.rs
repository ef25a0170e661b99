//! Conditions: what is observed of one aspect of an object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Unknown;

/// One aspect of the state of an object.
///
/// The fields are those of `metav1.Condition`, with its limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The aspect, in CamelCase or as foo.example.com/CamelCase.
    #[serde(rename = "type")]
    #[schemars(length(max = 316), extend("pattern" = TYPE_PATTERN))]
    pub type_: String,
    /// True, False or Unknown.
    #[schemars(extend("enum" = ["True", "False", "Unknown"]))]
    pub status: String,
    /// Why, as one word for programs.
    #[schemars(length(min = 1, max = 1024), extend("pattern" = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"))]
    pub reason: String,
    /// Why, for people; may be empty.
    #[schemars(length(max = 32768))]
    pub message: String,
    /// When the status last changed from one value to another.
    pub last_transition_time: Time,
    /// The metadata.generation the condition was set for; an older one means the condition is out of date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

const TYPE_PATTERN: &str =
    "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

impl Default for Condition {
    fn default() -> Self {
        Self {
            type_: String::new(),
            status: String::new(),
            reason: String::new(),
            message: String::new(),
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
            observed_generation: None,
            unknown: Unknown::new(),
        }
    }
}

impl Condition {
    /// Whether the status is `True`.
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }

    /// Whether the status is `False`; `Unknown` is neither.
    pub fn is_false(&self) -> bool {
        self.status == "False"
    }
}
