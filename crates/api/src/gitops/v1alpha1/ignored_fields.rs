//! Fields of objects that a ConfigRepo ignores.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Unknown;

/// Fields of some objects that keep their values on the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IgnoredFields {
    /// Paths of the fields, such as `/spec/replicas`. `[name=web]` selects the list item with this key, as in
    /// `/spec/template/spec/containers/[name=web]/image`. `~1` stands for a slash in a name.
    #[schemars(length(min = 1, max = 100), inner(length(min = 2, max = 1024)), extend("x-kubernetes-list-type" = "atomic"))]
    pub paths: Vec<String>,
    /// API group of the objects. If empty, any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub group: String,
    /// Kind of the objects. If empty, any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub kind: String,
    /// Namespace of the objects. If empty, any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub namespace: String,
    /// Name of the object. If empty, any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub name: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
