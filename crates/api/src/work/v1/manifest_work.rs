//! ManifestWork: manifests for one spoke, and their status there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ManifestConfigOption, ResourceIdentifier};
use crate::{Condition, Manifest, Unknown, names, schema};

kind! {
    /// ManifestWork holds objects that are wanted on a cluster. It stands in the namespace of the cluster.
    ManifestWork {
        group: names::WORK_GROUP,
        version: "v1",
        plural: "manifestworks",
        scope: Namespaced,
        spec: ManifestWorkSpec,
        status: ManifestWorkStatus,
        columns: [
            ("Applied", "string", ".status.conditions[?(@.type==\"Applied\")].status"),
            ("Available", "string", ".status.conditions[?(@.type==\"Available\")].status"),
            ("Age", "date", ".metadata.creationTimestamp"),
        ],
    }
}

/// The spec says which objects are wanted on the cluster, and how they are applied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkSpec {
    /// The workload holds the objects.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub workload: ManifestsTemplate,
    /// The option says what happens to the objects when the work is deleted. The default is Foreground.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_option: Option<DeleteOption>,
    /// Each entry says how some of the objects are updated, watched and judged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifest_configs: Vec<ManifestConfigOption>,
    /// The agent applies an object only when the executor may do so. Without an executor, the permissions of
    /// the agent count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<ManifestWorkExecutor>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ManifestsTemplate holds the objects to apply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ManifestsTemplate {
    /// Each manifest is an object with apiVersion, kind and metadata.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::manifests")]
    pub manifests: Vec<Manifest>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// DeleteOption says what happens to the objects when the work is deleted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteOption {
    /// The policy says how the objects are deleted. The default is Foreground.
    #[serde(default)]
    pub propagation_policy: DeletePropagationPolicy,
    /// These objects stay when the policy is SelectivelyOrphan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selectively_orphans: Option<SelectivelyOrphan>,
    /// A completed work is deleted after so many seconds. Without a number it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i64>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// The policy says how the objects of a work are deleted.
    pub enum DeletePropagationPolicy {
        /// The work is removed after its objects are.
        Foreground = "Foreground",
        /// All objects stay.
        Orphan = "Orphan",
        /// The objects that the rules name stay.
        SelectivelyOrphan = "SelectivelyOrphan",
    }
}

/// SelectivelyOrphan names objects that stay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelectivelyOrphan {
    /// Each rule names one object, without wildcards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orphaning_rules: Vec<OrphaningRule>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A rule that names an object to keep on the cluster.
pub type OrphaningRule = ResourceIdentifier;

/// ManifestWorkExecutor says whose permissions count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ManifestWorkExecutor {
    /// The subject is the account whose permissions count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<ExecutorSubject>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ExecutorSubject is the account whose permissions count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutorSubject {
    /// The type of the subject is ServiceAccount.
    pub r#type: ExecutorSubjectType,
    /// The subject is a service account of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ExecutorServiceAccount>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// The type says what the subject is.
    pub enum ExecutorSubjectType {
        /// The subject is a service account of the cluster.
        ServiceAccount = "ServiceAccount",
    }
}

/// ExecutorServiceAccount names a service account of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExecutorServiceAccount {
    /// This is the namespace of the service account.
    #[schemars(length(min = 1, max = 253), extend("pattern" = DNS_SUBDOMAIN_PATTERN))]
    pub namespace: String,
    /// This is the name of the service account.
    #[schemars(length(min = 1, max = 253), extend("pattern" = DNS_SUBDOMAIN_PATTERN))]
    pub name: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

const DNS_SUBDOMAIN_PATTERN: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// The status holds what the agent reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkStatus {
    /// The conditions say whether all objects are applied and available.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The status of the resources says the same of every object.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub resource_status: ManifestResourceStatus,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ManifestResourceStatus says what the agent reports of every object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ManifestResourceStatus {
    /// Each object has an entry, in the order of the workload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<ManifestCondition>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ManifestCondition says what the agent reports of one object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["resourceMeta", "conditions"]))]
pub struct ManifestCondition {
    /// The meta names the object.
    pub resource_meta: ManifestResourceMeta,
    /// These values were read from the status of the object.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub status_feedback: StatusFeedback,
    /// The conditions say whether the object is applied and available.
    #[serde(default)]
    #[schemars(extend("default" = null, "x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ManifestResourceMeta names an object of a work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ManifestResourceMeta {
    /// The ordinal is the position of the object in the workload, from 0.
    pub ordinal: i32,
    /// This is the API group. It is empty for the core group.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub group: String,
    /// This is the API version, such as v1.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub version: String,
    /// This is the kind, such as Deployment.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub kind: String,
    /// This is the plural resource name, such as deployments. It is empty when the cluster does not serve the
    /// kind.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub resource: String,
    /// This is the name of the object.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub name: String,
    /// This is the namespace of the object. It is empty for cluster-scoped objects.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub namespace: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// StatusFeedback holds values that were read from the status of an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatusFeedback {
    /// Each value has the name that its rule gives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub values: Vec<FeedbackValue>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// FeedbackValue is a value that was read from the status of an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackValue {
    /// This is the name that the rule gives the value.
    pub name: String,
    /// This is the value.
    pub field_value: FieldValue,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// FieldValue is a value of one of several types.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldValue {
    /// The type says which of the other fields holds the value.
    pub r#type: FieldValueType,
    /// The value is an integer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integer: Option<i64>,
    /// The value is a string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub string: Option<String>,
    /// The value is a boolean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boolean: Option<bool>,
    /// The value is JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub json_raw: Option<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// The type says what a feedback value is.
    pub enum FieldValueType {
        /// The value is an integer.
        Integer = "Integer",
        /// The value is a string.
        String = "String",
        /// The value is a boolean.
        Boolean = "Boolean",
        /// The value is JSON text.
        JsonRaw = "JsonRaw",
    }
}
