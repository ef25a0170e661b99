//! The parts that ClusterManager and Klusterlet have in common.

use k8s_openapi::api::core::v1::ResourceRequirements;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::{Condition, Unknown};

/// Returns the schema of an object with arbitrary fields.
pub(super) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

open_enum! {
    /// The mode says which processes run, and where.
    pub open enum InstallMode {
        /// Registration and work run as two Deployments on the cluster.
        Default = "Default",
        /// They run on another cluster.
        Hosted = "Hosted",
        /// Registration and work run as one Deployment on the cluster.
        Singleton = "Singleton",
        /// They run as one Deployment on another cluster.
        SingletonHosted = "SingletonHosted",
    }
}

open_enum! {
    /// The class says where the resources of containers come from.
    pub enum ResourceQosClass {
        /// The operator has its own requests.
        Default = "Default",
        /// Containers have no requests and no limits.
        BestEffort = "BestEffort",
        /// The requests and limits stand beside the class.
        ResourceRequirement = "ResourceRequirement",
    }
}

/// ResourceRequirement sets the resources of all containers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRequirement {
    /// Class.
    #[serde(default, rename = "type")]
    pub type_: ResourceQosClass,
    /// Requests and limits of the class ResourceRequirement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_requirements: Option<ResourceRequirements>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// The mode of a feature gate.
    pub enum FeatureGateMode {
        /// The feature is off.
        Disable = "Disable",
        /// The feature is on.
        Enable = "Enable",
    }
}

/// FeatureGate turns a feature on or off.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FeatureGate {
    /// Name of the feature.
    pub feature: String,
    /// Mode.
    #[serde(default)]
    pub mode: FeatureGateMode,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// State of the installation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatorStatus {
    /// Generation of the spec that the status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions of the installation: what is applied, what runs, and what prevents it from working.
    #[serde(default)]
    #[schemars(extend(
        "default" = null, "x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]
    ))]
    pub conditions: Vec<Condition>,
    /// Deployments, with the generations that the operator has applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub generations: Vec<GenerationStatus>,
    /// Objects of the installation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub related_resources: Vec<RelatedResource>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// GenerationStatus is the generation of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GenerationStatus {
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural resource name.
    pub resource: String,
    /// Namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Generation.
    pub last_generation: i64,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// RelatedResource is an object of the installation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RelatedResource {
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural resource name.
    pub resource: String,
    /// Namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
