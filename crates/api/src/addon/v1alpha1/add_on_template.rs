//! AddOnTemplate: the manifests of an add-on, and how its agents register.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Subject;
use crate::work::v1::ManifestWorkSpec;
use crate::{Unknown, names};

kind! {
    /// An add-on defined by the objects of its agent.
    AddOnTemplate {
        group: names::ADDON_GROUP,
        version: "v1alpha1",
        plural: "addontemplates",
        scope: Cluster,
        spec(required): AddOnTemplateSpec,
        columns: [("ADDON NAME", "string", ".spec.addonName")],
    }
}

/// What the agent is, and what it may do on the hub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddOnTemplateSpec {
    /// Name of the add-on.
    pub addon_name: String,
    /// The objects of the agent; they may hold variables such as {{CLUSTER_NAME}}.
    pub agent_spec: ManifestWorkSpec,
    /// The identities the agent gets on the hub.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub registration: Vec<RegistrationSpec>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// An identity of the agent on the hub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistrationSpec {
    /// Which of the two counts.
    pub r#type: RegistrationType,
    /// A client of the hub's API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_client: Option<KubeClientRegistration>,
    /// A certificate of a signer of the add-on's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_signer: Option<CustomSignerRegistration>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// What an identity is for.
    pub enum RegistrationType {
        /// For the hub's API server.
        KubeClient = "KubeClient",
        /// For whatever trusts the signer.
        CustomSigner = "CustomSigner",
    }
}

/// A client of the hub's API server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeClientRegistration {
    /// What the agent may do on the hub.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hub_permissions: Vec<HubPermission>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Something the agent may do on the hub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HubPermission {
    /// Which of the two counts.
    pub r#type: HubPermissionsBindingType,
    /// In the namespace of its cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_cluster: Option<CurrentClusterBinding>,
    /// In another namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub single_namespace: Option<SingleNamespaceBinding>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// Where a permission holds.
    pub enum HubPermissionsBindingType {
        /// In the namespace of the agent's cluster.
        CurrentCluster = "CurrentCluster",
        /// In one namespace, the same for all clusters.
        SingleNamespace = "SingleNamespace",
    }
}

/// A permission in the namespace of the agent's cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CurrentClusterBinding {
    /// Name of the ClusterRole.
    pub cluster_role_name: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A permission in one namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SingleNamespaceBinding {
    /// The namespace.
    pub namespace: String,
    /// The role.
    pub role_ref: RoleRef,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A role.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct RoleRef {
    /// API group of the role.
    pub api_group: String,
    /// Role or ClusterRole.
    pub kind: String,
    /// Name of the role.
    pub name: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A certificate of a signer of the add-on's own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomSignerRegistration {
    /// Name of the signer.
    #[schemars(length(min = 5, max = 571), extend("pattern" = names::SIGNER_PATTERN))]
    pub signer_name: String,
    /// What the certificate says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// The secret with the certificate and key that sign.
    #[serde(rename = "signingCA")]
    pub signing_ca: SigningCa,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A secret with a certificate and a key that sign.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SigningCa {
    /// Namespace of the secret; that of the add-on's manager where empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the secret.
    pub name: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
