//! ManifestWork: manifests for one spoke, and their status there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ManifestConfigOption, ResourceIdentifier};
use crate::{Condition, Manifest, Unknown, names, schema};

kind! {
    /// ManifestWork contains objects to apply on a cluster. It is in the namespace of the cluster.
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

/// Objects to apply on the cluster, and rules for applying them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkSpec {
    /// Objects to apply.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub workload: ManifestsTemplate,
    /// Effect on the objects when the work is deleted. Default: Foreground.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_option: Option<DeleteOption>,
    /// Rules to update, watch and judge some of the objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifest_configs: Vec<ManifestConfigOption>,
    /// Identity that must be allowed to apply the objects. If absent, the permissions of the agent count.
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
    /// Objects with apiVersion, kind and metadata.
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
    /// Deletion policy of the objects. Default: Foreground.
    #[serde(default)]
    pub propagation_policy: DeletePropagationPolicy,
    /// Objects that stay if the policy is SelectivelyOrphan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selectively_orphans: Option<SelectivelyOrphan>,
    /// Seconds after which a completed work is deleted. If absent, it stays.
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
    /// Rules, each for one object, without wildcards.
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
    /// Account whose permissions count.
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
    /// Type of the subject: ServiceAccount.
    pub r#type: ExecutorSubjectType,
    /// Service account of the cluster.
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
        /// Service account of the cluster.
        ServiceAccount = "ServiceAccount",
    }
}

/// ExecutorServiceAccount names a service account of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExecutorServiceAccount {
    /// Namespace of the service account.
    #[schemars(length(min = 1, max = 253), extend("pattern" = DNS_SUBDOMAIN_PATTERN))]
    pub namespace: String,
    /// Name of the service account.
    #[schemars(length(min = 1, max = 253), extend("pattern" = DNS_SUBDOMAIN_PATTERN))]
    pub name: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

const DNS_SUBDOMAIN_PATTERN: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// State of the objects, as the agent reports it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkStatus {
    /// Conditions of the work: whether all objects are applied and available.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// State of each object.
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
    /// State of each object, in the order of the workload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<ManifestCondition>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ManifestCondition is the state of one object, as the agent reports it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["resourceMeta", "conditions"]))]
pub struct ManifestCondition {
    /// Identifier of the object.
    pub resource_meta: ManifestResourceMeta,
    /// Values that were read from the status of the object.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub status_feedback: StatusFeedback,
    /// Conditions of the object: whether it is applied and available.
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
    /// Position of the object in the workload, from 0.
    pub ordinal: i32,
    /// API group. Empty for the core group.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub group: String,
    /// API version, such as v1.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub version: String,
    /// Kind, such as Deployment.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub kind: String,
    /// Plural resource name, such as deployments. Empty if the cluster does not serve the kind.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub resource: String,
    /// Name of the object.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub name: String,
    /// Namespace of the object. Empty for cluster-scoped objects.
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
    /// Values by the names in their rules.
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
    /// Name of the value in its rule.
    pub name: String,
    /// Value.
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
    /// Type of the value, which is the name of the field with it.
    pub r#type: FieldValueType,
    /// Integer value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integer: Option<i64>,
    /// String value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub string: Option<String>,
    /// Boolean value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boolean: Option<bool>,
    /// Value as JSON text.
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
        /// Integer value.
        Integer = "Integer",
        /// String value.
        String = "String",
        /// Boolean value.
        Boolean = "Boolean",
        /// Value as JSON text.
        JsonRaw = "JsonRaw",
    }
}
