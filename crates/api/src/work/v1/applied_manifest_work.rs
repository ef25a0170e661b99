//! AppliedManifestWork: the objects that a ManifestWork has on its spoke.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Unknown, names};

kind! {
    /// What an agent keeps of a work on its cluster: the owner of everything the work applied there.
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

/// Which work of which hub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppliedManifestWorkSpec {
    /// Hash of the hub's URL.
    pub hub_hash: String,
    /// Name of the work.
    pub manifest_work_name: String,
    /// The agent that applied it.
    #[serde(default, rename = "agentID", skip_serializing_if = "String::is_empty")]
    pub agent_id: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// What was applied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppliedManifestWorkStatus {
    /// The objects that were applied; those no longer wanted are deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applied_resources: Vec<AppliedResource>,
    /// Since when the hub does not have the work.
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

/// An object that was applied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["version", "resource", "name"]))]
pub struct AppliedResource {
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
    /// API version.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub version: String,
    /// UID; an object with another one is not ours.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
