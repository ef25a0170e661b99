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

/// Objects of the agent, and its permissions on the hub.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddOnTemplateSpec {
    /// Name of the ClusterManagementAddOn.
    pub addon_name: String,
    /// Objects of the agent. They may hold variables such as `{{CLUSTER_NAME}}`.
    pub agent_spec: ManifestWorkSpec,
    /// Identities of the agent on the hub. As in OCM, an empty list is not an absent one: with it, containers get
    /// the variable `HUB_KUBECONFIG`.
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
    /// Type, which selects the field to use.
    pub r#type: RegistrationType,
    /// Options for the type KubeClient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_client: Option<KubeClientRegistration>,
    /// Options for the type CustomSigner.
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
    /// Permissions of the agent on the hub.
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
    /// Scope of the permission.
    pub r#type: HubPermissionsBindingType,
    /// Options for the type CurrentCluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_cluster: Option<CurrentClusterBinding>,
    /// Options for the type SingleNamespace.
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
    /// Name of the ClusterRole.
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
    /// Namespace of the permission.
    pub namespace: String,
    /// Role with the permission.
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

/// CustomSignerRegistration is a certificate of a signer of the add-on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomSignerRegistration {
    /// Name of the signer.
    #[schemars(length(min = 5, max = 571), extend("pattern" = names::SIGNER_PATTERN))]
    pub signer_name: String,
    /// Subject of the certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// Secret with the certificate and the key of the signer.
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
    /// Namespace of the Secret. Without it, the namespace of the manager of the add-on counts.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the Secret.
    pub name: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}
