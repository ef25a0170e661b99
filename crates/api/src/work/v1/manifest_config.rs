//! How single objects of a work are updated, watched and judged.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Unknown, names};

/// How some objects of a work are updated, watched and judged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestConfigOption {
    /// Which objects; name and namespace may hold the wildcard *.
    pub resource_identifier: ResourceIdentifier,
    /// Values to read from their status.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feedback_rules: Vec<FeedbackRule>,
    /// How they are updated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
    /// Conditions to set from their state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["condition"]))]
    pub condition_rules: Vec<ConditionRule>,
    /// Whether feedback is read now and then, or when the objects change.
    #[serde(default)]
    pub feedback_scrape_type: FeedbackScrapeType,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Which objects are meant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceIdentifier {
    /// API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Resource, such as deployments.
    pub resource: String,
    /// Name.
    pub name: String,
    /// Namespace; empty for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Values to read from the status of objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackRule {
    /// Which of the two ways counts.
    pub r#type: FeedbackType,
    /// Where the values are, for the type JSONPaths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub json_paths: Vec<JsonPath>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// How values are read.
    pub enum FeedbackType {
        /// What is commonly wanted of the kind.
        WellKnownStatus = "WellKnownStatus",
        /// By paths.
        JsonPaths = "JSONPaths",
    }
}

/// Where a value is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JsonPath {
    /// Name of the value.
    pub name: String,
    /// API version the path is for; any where empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// JSON path of the value below the status.
    pub path: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// How objects are updated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["type"]))]
pub struct UpdateStrategy {
    /// Which of the ways counts.
    #[serde(default)]
    pub r#type: UpdateStrategyType,
    /// Options of the type ServerSideApply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_side_apply: Option<ServerSideApplyConfig>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// Ways of updating objects.
    pub enum UpdateStrategyType {
        /// Merges the manifest into the object.
        Update = "Update",
        /// Creates the object and leaves it alone.
        CreateOnly = "CreateOnly",
        /// Server-side apply.
        ServerSideApply = "ServerSideApply",
        /// Writes nothing; the object is only watched.
        ReadOnly = "ReadOnly",
    }
}

/// Options of server-side apply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerSideApplyConfig {
    /// Takes fields that another manager owns.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// Name of the manager; it starts with work-agent.
    #[serde(default = "work_agent")]
    #[schemars(extend("pattern" = "^work-agent"))]
    pub field_manager: String,
    /// Fields that are left to others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["condition"]))]
    pub ignore_fields: Vec<IgnoreField>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

fn work_agent() -> String {
    names::WORK_AGENT_MANAGER.into()
}

/// Fields that are left to others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["condition"]))]
pub struct IgnoreField {
    /// When they are left.
    #[serde(default)]
    pub condition: IgnoreFieldsCondition,
    /// The fields as JSON paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub json_paths: Vec<String>,
    /// The fields as JSON pointers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub json_pointers: Vec<String>,
    /// The fields as jq paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jq_path_expressions: Vec<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// When fields are left to others.
    pub enum IgnoreFieldsCondition {
        /// Once the object exists.
        OnSpokePresent = "OnSpokePresent",
        /// Until the manifest changes.
        OnSpokeChange = "OnSpokeChange",
    }
}

/// A condition to set from the state of objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{"rule": "self.type != 'CEL' || self.condition != \"\"", "message": "Condition is required for CEL rules"}]))]
pub struct ConditionRule {
    /// Type of the condition.
    pub condition: String,
    /// Which of the two ways counts.
    pub r#type: ConditionRuleType,
    /// Expressions over object, all of which must be true, for the type CEL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cel_expressions: Vec<String>,
    /// Message of the condition.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Expression over object and result that gives the message; counts before message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message_expression: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// How a condition is found.
    pub enum ConditionRuleType {
        /// As is common for the kind.
        WellKnownConditions = "WellKnownConditions",
        /// By expressions.
        Cel = "CEL",
    }
}

open_enum! {
    /// When feedback is read.
    pub enum FeedbackScrapeType {
        /// Now and then.
        Poll = "Poll",
        /// When the object changes.
        Watch = "Watch",
    }
}
