//! Options for single objects of a work: how the agent updates, watches and evaluates them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Unknown, names};

/// ManifestConfigOption says how some objects of a work are updated, watched and judged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestConfigOption {
    /// The identifier says which objects are meant. Name and namespace may hold the wildcard *.
    pub resource_identifier: ResourceIdentifier,
    /// The agent reads these values from the status of the objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feedback_rules: Vec<FeedbackRule>,
    /// The strategy says how the objects are updated. The default is Update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
    /// The agent sets these conditions from the state of the objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["condition"]))]
    pub condition_rules: Vec<ConditionRule>,
    /// The type says when the agent reads values and conditions. The default is Poll.
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
    /// This is the API group. It is empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// This is the plural resource name, such as deployments.
    pub resource: String,
    /// This is the name of the object.
    pub name: String,
    /// This is the namespace of the object. It is empty for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// FeedbackRule says which values are read from objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackRule {
    /// The type says how values are found.
    pub r#type: FeedbackType,
    /// These paths lead to the values when the type is JSONPaths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub json_paths: Vec<JsonPath>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// The type says how values are found.
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
    /// The value is reported under this name.
    pub name: String,
    /// The path is for objects of this API version. An empty version means every version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// This JSON path leads to the value below the status, such as .replicas.
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
    /// The type says how objects are updated. The default is Update.
    #[serde(default)]
    pub r#type: UpdateStrategyType,
    /// These options count when the type is ServerSideApply.
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
    /// True takes fields that another manager owns. While it is false, such a field is a conflict.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// This is the field manager. It starts with work-agent, which is the default.
    #[serde(default = "work_agent")]
    #[schemars(extend("pattern" = "^work-agent"))]
    pub field_manager: String,
    /// The agent leaves these fields to others.
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

/// IgnoreField names fields that the agent leaves to others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["condition"]))]
pub struct IgnoreField {
    /// The condition says when the agent leaves the fields.
    #[serde(default)]
    pub condition: IgnoreFieldsCondition,
    /// These JSON paths name the fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub json_paths: Vec<String>,
    /// These JSON pointers name the fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub json_pointers: Vec<String>,
    /// These jq paths name the fields. The agent of Wheelwright takes the part of jq that names fields.
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

/// ConditionRule says how a condition is set from the state of objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{"rule": "self.type != 'CEL' || self.condition != \"\"", "message": "Condition is required for CEL rules"}]))]
pub struct ConditionRule {
    /// This is the type of the condition. It is required when the type of the rule is CEL.
    pub condition: String,
    /// The type says how the condition is found.
    pub r#type: ConditionRuleType,
    /// Each CEL expression reads the variable object and gives a boolean. The condition is true when all of
    /// them are. They count when the type is CEL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cel_expressions: Vec<String>,
    /// This is the message of the condition.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// This CEL expression reads the variables object and result and gives the message. It counts before
    /// message.
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
