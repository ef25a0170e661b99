//! Options for single objects of a work: how the agent updates, watches and evaluates them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Unknown, names};

/// ManifestConfigOption sets how some objects of a work are updated, watched and judged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestConfigOption {
    /// Identifier of the objects. Name and namespace can contain the wildcard *.
    pub resource_identifier: ResourceIdentifier,
    /// Values that the agent reads from the status of the objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feedback_rules: Vec<FeedbackRule>,
    /// Update strategy of the objects. Default: Update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
    /// Conditions that the agent sets from the state of the objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["condition"]))]
    pub condition_rules: Vec<ConditionRule>,
    /// Trigger for reading values and conditions. Default: Poll.
    #[serde(default)]
    pub feedback_scrape_type: FeedbackScrapeType,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ResourceIdentifier names objects of a work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceIdentifier {
    /// API group. Empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Plural resource name, such as deployments.
    pub resource: String,
    /// Name of the object.
    pub name: String,
    /// Namespace of the object. Empty for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// FeedbackRule selects values to read from objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackRule {
    /// Source of the values.
    pub r#type: FeedbackType,
    /// Paths of the values, for the type JSONPaths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub json_paths: Vec<JsonPath>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// Source of the values.
    pub enum FeedbackType {
        /// The agent reads the values that are usual for the kind, such as the replicas of a Deployment.
        WellKnownStatus = "WellKnownStatus",
        /// The agent reads the values at the JSON paths.
        JsonPaths = "JSONPaths",
    }
}

/// JsonPath leads to a value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JsonPath {
    /// Name under which the value is reported.
    pub name: String,
    /// API version of the objects to which the path applies. If empty, all versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// JSON path of the value below the status, such as .replicas.
    pub path: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// UpdateStrategy says how objects are updated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["type"]))]
pub struct UpdateStrategy {
    /// Type of the update. Default: Update.
    #[serde(default)]
    pub r#type: UpdateStrategyType,
    /// Options for the type ServerSideApply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_side_apply: Option<ServerSideApplyConfig>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// The type says how objects are updated.
    pub enum UpdateStrategyType {
        /// The agent applies the manifest by force and keeps fields that the manifest does not name.
        Update = "Update",
        /// The agent creates the object when it does not exist, and never changes it.
        CreateOnly = "CreateOnly",
        /// The agent applies the manifest by server-side apply.
        ServerSideApply = "ServerSideApply",
        /// The agent writes nothing. It reports the state of the object.
        ReadOnly = "ReadOnly",
    }
}

/// ServerSideApplyConfig has the options of server-side apply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerSideApplyConfig {
    /// If true, fields that another manager owns are taken over. If false, such a field is a conflict.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// Field manager. It starts with work-agent, which is the default.
    #[serde(default = "work_agent")]
    #[schemars(extend("pattern" = "^work-agent"))]
    pub field_manager: String,
    /// Fields that other clients manage.
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

/// IgnoreField selects fields that other clients manage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["condition"]))]
pub struct IgnoreField {
    /// Condition under which the agent ignores the fields.
    #[serde(default)]
    pub condition: IgnoreFieldsCondition,
    /// JSON paths of the fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub json_paths: Vec<String>,
    /// JSON pointers of the fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub json_pointers: Vec<String>,
    /// jq paths of the fields. The agent of Wheelwright supports the part of jq that selects fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jq_path_expressions: Vec<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// The condition says when the agent leaves fields to others.
    pub enum IgnoreFieldsCondition {
        /// The agent leaves the fields when the object exists.
        OnSpokePresent = "OnSpokePresent",
        /// The agent leaves the fields until the manifest changes.
        OnSpokeChange = "OnSpokeChange",
    }
}

/// ConditionRule sets a condition from the state of objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{"rule": "self.type != 'CEL' || self.condition != \"\"", "message": "Condition is required for CEL rules"}]))]
pub struct ConditionRule {
    /// Type of the condition. Required if the type of the rule is CEL.
    pub condition: String,
    /// Source of the condition.
    pub r#type: ConditionRuleType,
    /// CEL expressions with the variable object and a boolean result, for the type CEL. The condition is true if
    /// all are true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cel_expressions: Vec<String>,
    /// Message of the condition.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// CEL expression with the variables object and result, which returns the message. It precedes `message`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message_expression: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// The type says how a condition is found.
    pub enum ConditionRuleType {
        /// The agent sets the condition that is usual for the kind, such as Complete of a Job.
        WellKnownConditions = "WellKnownConditions",
        /// The agent evaluates the CEL expressions.
        Cel = "CEL",
    }
}

open_enum! {
    /// The type says when the agent reads values and conditions.
    pub enum FeedbackScrapeType {
        /// The agent reads at intervals.
        Poll = "Poll",
        /// The agent reads when the object changes.
        Watch = "Watch",
    }
}
