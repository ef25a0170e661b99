//! AppliedManifestWork: the objects that a ManifestWork applied to its spoke.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Unknown, names};

kind! {
    /// AppliedManifestWork is the record of a ManifestWork on its cluster. It owns every object that the work
    /// applied there.
    AppliedManifestWork {
        group: names::WORK_GROUP,
        version: "v1",
        plural: "appliedmanifestworks",
        scope: Cluster,
        spec: AppliedManifestWorkSpec,
        status: AppliedManifestWorkStatus,
        columns: [
            ("Work", "string", ".spec.manifestWorkName"),
            ("Agent", "string", ".spec.agentID"),
            ("Missing", "date", ".status.evictionStartTime"),
        ],
    }
}

/// Applied work and its hub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppliedManifestWorkSpec {
    /// SHA-256 of the URL of the hub, in hexadecimal digits.
    pub hub_hash: String,
    /// Name of the ManifestWork.
    pub manifest_work_name: String,
    /// Identity of the agent that applied the work.
    #[serde(default, rename = "agentID", skip_serializing_if = "String::is_empty")]
    pub agent_id: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Applied objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppliedManifestWorkStatus {
    /// Applied objects. An object that the work no longer has is deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applied_resources: Vec<AppliedResource>,
    /// Time since which the hub no longer has the work. The agent deletes the objects after the eviction grace
    /// period.
    #[serde(
        deserialize_with = "crate::lenient::optional_time",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub eviction_start_time: Option<Time>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// AppliedResource is an object that was applied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["version", "resource", "name"]))]
pub struct AppliedResource {
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
    /// API version, such as v1.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub version: String,
    /// UID of the object. An object with another UID was not applied by this work and is left alone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
