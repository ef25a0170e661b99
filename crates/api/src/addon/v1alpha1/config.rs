//! Configuration and subject types that several kinds of the group share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Unknown, names};

/// AddOnMeta describes an add-on for people.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddOnMeta {
    /// Display name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// Description of the add-on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ConfigCoordinates is deprecated. It named the configuration of an add-on before configs did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigCoordinates {
    /// Deprecated. It named the CustomResourceDefinition of the configuration.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub crd_name: String,
    /// Deprecated. It named the configuration.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cr_name: String,
    /// Deprecated. It held the generation of the configuration that was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_observed_generation: Option<i64>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ConfigGroupResource is a kind of configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigGroupResource {
    /// API group. Empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Plural resource name, such as addondeploymentconfigs.
    #[schemars(length(min = 1))]
    pub resource: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ConfigReferent names a configuration of a known kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigReferent {
    /// Namespace of the configuration. Empty for cluster-scoped kinds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the object.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// AddOnConfig names a configuration to use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AddOnConfig {
    /// API group of the configuration. Empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Plural resource name of the configuration, such as addondeploymentconfigs.
    #[schemars(length(min = 1))]
    pub resource: String,
    /// Namespace of the configuration. Empty for cluster-scoped kinds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the object.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// ConfigSpecHash is a configuration with the hash of its content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigSpecHash {
    /// Namespace of the configuration. Empty for cluster-scoped kinds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the object.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Hash of the spec of the configuration.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub spec_hash: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Subject is the identity in a client certificate of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// Common name.
    #[serde(default)]
    #[schemars(extend("default" = null))]
    pub user: String,
    /// Organizations, which the API server reads as groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Organizational units.
    #[serde(default, rename = "organizationUnit", skip_serializing_if = "Vec::is_empty")]
    pub organization_units: Vec<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

impl Subject {
    /// Returns the subject, with missing fields set to the defaults of OCM's agent.
    #[must_use]
    pub fn completed(&self, cluster: &str, addon: &str) -> Self {
        let mut subject = self.clone();
        let of_cluster = format!("{}cluster:{cluster}:addon:{addon}", names::SUBJECT_PREFIX);
        if subject.user.is_empty() {
            subject.user = format!("{of_cluster}:agent:{addon}");
        }
        if subject.groups.is_empty() {
            subject.groups = vec![of_cluster];
        }
        subject
    }
}
