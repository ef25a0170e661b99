//! ManifestWork: manifests for one spoke, and their status there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ManifestConfigOption, ResourceIdentifier};
use crate::{Condition, Manifest, Unknown, names, schema};

kind! {
    /// Objects that should be on the cluster whose namespace the work is in.
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

/// What should be on the cluster, and how it is put there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkSpec {
    /// The objects.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub workload: ManifestsTemplate,
    /// What happens to the objects when the work is deleted; they are deleted in the foreground where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_option: Option<DeleteOption>,
    /// How single objects are updated, watched and judged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifest_configs: Vec<ManifestConfigOption>,
    /// Whose permissions the objects need; those of the agent where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<ManifestWorkExecutor>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Objects to apply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ManifestsTemplate {
    /// The objects, each with apiVersion, kind and metadata.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::manifests")]
    pub manifests: Vec<Manifest>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// What happens to the objects when the work goes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteOption {
    /// How the objects are deleted.
    #[serde(default)]
    pub propagation_policy: DeletePropagationPolicy,
    /// The objects that stay, for the policy SelectivelyOrphan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selectively_orphans: Option<SelectivelyOrphan>,
    /// Seconds after which a completed work is deleted; never where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i64>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// How the objects of a work are deleted.
    pub enum DeletePropagationPolicy {
        /// The work goes when they are gone.
        Foreground = "Foreground",
        /// They all stay.
        Orphan = "Orphan",
        /// Some stay.
        SelectivelyOrphan = "SelectivelyOrphan",
    }
}

/// Objects that stay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelectivelyOrphan {
    /// Names of the objects; no wildcards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orphaning_rules: Vec<OrphaningRule>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// An object that stays.
pub type OrphaningRule = ResourceIdentifier;

/// Whose permissions the objects need.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ManifestWorkExecutor {
    /// Who.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<ExecutorSubject>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Who must be allowed to apply the objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutorSubject {
    /// What it is.
    pub r#type: ExecutorSubjectType,
    /// A service account of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ExecutorServiceAccount>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// What an executor is.
    pub enum ExecutorSubjectType {
        /// A service account of the cluster.
        ServiceAccount = "ServiceAccount",
    }
}

/// A service account of the cluster.
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

/// What the agent reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestWorkStatus {
    /// Whether everything is applied and available.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The same of every object.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub resource_status: ManifestResourceStatus,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// What the agent reports of every object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ManifestResourceStatus {
    /// One entry an object, in the order of the workload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<ManifestCondition>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// What the agent reports of one object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["resourceMeta", "conditions"]))]
pub struct ManifestCondition {
    /// Which object.
    pub resource_meta: ManifestResourceMeta,
    /// Values read from its status.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub status_feedback: StatusFeedback,
    /// Whether it is applied and available.
    #[serde(default)]
    #[schemars(extend("default" = null, "x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Which object of a work is meant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ManifestResourceMeta {
    /// Its place in the workload, from 0.
    pub ordinal: i32,
    /// Its API group; empty for the core group.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub group: String,
    /// Its API version.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub version: String,
    /// Its kind.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub kind: String,
    /// Its resource, such as deployments; empty where the cluster does not know the kind.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub resource: String,
    /// Its name.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub name: String,
    /// Its namespace; empty for cluster-scoped objects.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub namespace: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Values read from the status of an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatusFeedback {
    /// The values by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub values: Vec<FeedbackValue>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A value read from the status of an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackValue {
    /// Name of the value, as the rule gives it.
    pub name: String,
    /// The value.
    pub field_value: FieldValue,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A value of one of several types.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldValue {
    /// Which of the fields holds the value.
    pub r#type: FieldValueType,
    /// An integer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integer: Option<i64>,
    /// A string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub string: Option<String>,
    /// A boolean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boolean: Option<bool>,
    /// A list or an object, as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub json_raw: Option<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// Types of feedback values.
    pub enum FieldValueType {
        /// An integer.
        Integer = "Integer",
        /// A string.
        String = "String",
        /// A boolean.
        Boolean = "Boolean",
        /// JSON text.
        JsonRaw = "JsonRaw",
    }
}
