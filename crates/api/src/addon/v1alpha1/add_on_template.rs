//! AddOnTemplate: the manifests of an add-on, and how its agents register.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Subject;
use crate::work::v1::ManifestWorkSpec;
use crate::{Unknown, names};

kind! {
    /// AddOnTemplate defines an add-on by the objects of its agent.
    AddOnTemplate {
        group: names::ADDON_GROUP,
        version: "v1alpha1",
        plural: "addontemplates",
        scope: Cluster,
        spec(required): AddOnTemplateSpec,
        columns: [("ADDON NAME", "string", ".spec.addonName")],
    }
}

/// The spec says what the agent is, and what it may do on the hub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddOnTemplateSpec {
    /// This is the name of the ClusterManagementAddOn.
    pub addon_name: String,
    /// These are the objects of the agent. They may hold variables such as `{{CLUSTER_NAME}}`.
    pub agent_spec: ManifestWorkSpec,
    /// The agent gets these identities on the hub. As in OCM, an empty list is not an absent one: with it, containers get the variable
    /// `HUB_KUBECONFIG`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration: Option<Vec<RegistrationSpec>>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// RegistrationSpec is an identity of the agent on the hub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistrationSpec {
    /// The type says which of the other fields is used.
    pub r#type: RegistrationType,
    /// These options count when the type is KubeClient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_client: Option<KubeClientRegistration>,
    /// These options count when the type is CustomSigner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_signer: Option<CustomSignerRegistration>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// The type says what an identity is for.
    pub enum RegistrationType {
        /// The identity is for the API server of the hub.
        KubeClient = "KubeClient",
        /// The identity is for servers that trust the signer.
        CustomSigner = "CustomSigner",
    }
}

/// KubeClientRegistration is an identity for the API server of the hub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeClientRegistration {
    /// The agent gets these permissions on the hub.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hub_permissions: Vec<HubPermission>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// HubPermission is a permission of the agent on the hub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HubPermission {
    /// The type says where the permission holds.
    pub r#type: HubPermissionsBindingType,
    /// These options count when the type is CurrentCluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_cluster: Option<CurrentClusterBinding>,
    /// These options count when the type is SingleNamespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub single_namespace: Option<SingleNamespaceBinding>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// The type says where a permission holds.
    pub enum HubPermissionsBindingType {
        /// The permission holds in the namespace of the agent's cluster.
        CurrentCluster = "CurrentCluster",
        /// The permission holds in one namespace, the same for all clusters.
        SingleNamespace = "SingleNamespace",
    }
}

/// CurrentClusterBinding is a permission in the namespace of the agent's cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CurrentClusterBinding {
    /// This is the name of the ClusterRole.
    pub cluster_role_name: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// SingleNamespaceBinding is a permission in one namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SingleNamespaceBinding {
    /// The permission holds in this namespace.
    pub namespace: String,
    /// The permission is that of this role.
    pub role_ref: RoleRef,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// RoleRef names a role.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct RoleRef {
    /// This is the API group of the role.
    pub api_group: String,
    /// The kind is Role or ClusterRole.
    pub kind: String,
    /// This is the name of the role.
    pub name: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// CustomSignerRegistration is a certificate of a signer of the add-on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomSignerRegistration {
    /// This is the name of the signer.
    #[schemars(length(min = 5, max = 571), extend("pattern" = names::SIGNER_PATTERN))]
    pub signer_name: String,
    /// The certificate carries this subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// This Secret holds the certificate and the key that sign.
    #[serde(rename = "signingCA")]
    pub signing_ca: SigningCa,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// SigningCa names a Secret with a certificate and a key that sign.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SigningCa {
    /// This is the namespace of the Secret. Without it, the namespace of the manager of the add-on counts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// This is the name of the Secret.
    pub name: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
