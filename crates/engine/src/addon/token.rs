//! The objects with which a cluster's agent gets tokens for an add-on, instead of a certificate.
//!
//! Labels, rules and messages are OCM's.

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::registration::rbac;
use api::addon::token::{account, ready_message};
use api::addon::v1alpha1::{KubeClientDriver, ManagedClusterAddOn};
use api::condition::ConditionStatus::{False, True};
use api::condition::Observation;
use api::names::addon_conditions::TOKEN_INFRASTRUCTURE_READY;
use api::names::{ADDON_API_NAME_LABEL, KUBE_CLIENT_SIGNER, TOKEN_INFRASTRUCTURE_LABEL};
use object::{Key, Metadata as _};

/// Returns the name of the role and its binding.
fn role_name(addon: &str) -> String {
    format!("{addon}-token-role")
}

/// Returns true if the cluster's agent requests tokens for an add-on.
pub fn is_requested(addon: &ManagedClusterAddOn) -> bool {
    addon.status.as_ref().is_some_and(|status| {
        status.kube_client_driver == Some(KubeClientDriver::Token)
            && status.registrations.iter().any(|asked| asked.signer_name == KUBE_CLIENT_SIGNER)
    })
}

/// Returns the add-on on a cluster to which a [`TokenInfrastructure`] binding belongs.
pub fn addon_of_binding(binding: &RoleBinding) -> Option<Key> {
    let addon = binding.label(ADDON_API_NAME_LABEL)?;
    let is_ours =
        binding.label(TOKEN_INFRASTRUCTURE_LABEL) == Some("true") && binding.name() == role_name(addon);
    is_ours.then(|| Key::namespaced(binding.namespace(), addon))
}

/// The service account of an add-on's agent, and the permission for the cluster's agent to create its tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenInfrastructure {
    /// The service account of the add-on's agent.
    pub account: ServiceAccount,
    /// The permission to create its tokens.
    pub role: Role,
    /// Grants the permission to the cluster's agent.
    pub binding: RoleBinding,
}

impl TokenInfrastructure {
    /// Returns the objects for an add-on on a cluster.
    pub fn new(key: &Key) -> Self {
        let (cluster, addon) = (key.namespace.as_str(), key.name.as_str());
        let labels = [(ADDON_API_NAME_LABEL, addon), (TOKEN_INFRASTRUCTURE_LABEL, "true")];
        let metadata = |name: String| ObjectMeta {
            namespace: Some(cluster.to_owned()),
            name: Some(name),
            labels: Some(labels.map(|(label, value)| (label.to_owned(), value.to_owned())).into()),
            ..ObjectMeta::default()
        };
        let rule = |verb: &str, names: Option<Vec<String>>| PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["serviceaccounts/token".into()]),
            resource_names: names,
            verbs: vec![verb.into()],
            ..PolicyRule::default()
        };
        let rules = vec![rule("create", Some(vec![account(addon)])), rule("subscribe", None)];
        let role_ref =
            RoleRef { api_group: Some(rbac::RBAC.into()), kind: "Role".into(), name: role_name(addon) };
        Self {
            account: ServiceAccount { metadata: metadata(account(addon)), ..ServiceAccount::default() },
            role: Role { metadata: metadata(role_name(addon)), rules: Some(rules) },
            binding: RoleBinding {
                metadata: metadata(role_name(addon)),
                role_ref,
                subjects: Some(rbac::subjects(cluster)),
            },
        }
    }
}

/// Returns the condition that gives the cluster's agent the service account with this uid.
pub fn ready(addon: &Key, uid: &str) -> Observation {
    let message = ready_message(&addon.namespace, &addon.name, uid);
    Observation::new(TOKEN_INFRASTRUCTURE_READY, True, TOKEN_INFRASTRUCTURE_READY).message(message)
}

/// Returns the condition for a failure to write the objects.
pub fn failed(reason: &str) -> Observation {
    let message = format!("Failed to apply token infrastructure: {reason}");
    Observation::new(TOKEN_INFRASTRUCTURE_READY, False, "TokenInfrastructureApplyFailed").message(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_agent_of_the_cluster_gets_tokens_of_the_account_of_its_addon_only() {
        let TokenInfrastructure { account, role, binding } =
            TokenInfrastructure::new(&Key::namespaced("c1", "a"));
        assert_eq!((account.namespace(), account.name()), ("c1", "a-agent"));
        let rules = json!([
            {"apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": ["a-agent"], "verbs": ["create"]},
            {"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["subscribe"]},
        ]);
        assert_eq!((role.name(), json!(role.rules)), ("a-token-role", rules));
        let groups: Vec<String> =
            binding.subjects.iter().flatten().map(|subject| subject.name.clone()).collect();
        assert_eq!(groups, ["system:open-cluster-management:c1", "open-cluster-management:c1"]);
        assert_eq!(binding.role_ref.name, "a-token-role");
        assert_eq!(addon_of_binding(&binding), Some(Key::namespaced("c1", "a")));
    }

    #[test]
    fn a_token_is_requested_by_the_driver_of_a_client_of_the_hub() {
        let asked = |status: serde_json::Value| {
            let metadata = json!({"name": "a", "namespace": "c1"});
            is_requested(
                &serde_json::from_value(json!({"metadata": metadata, "spec": {}, "status": status})).unwrap(),
            )
        };
        let client = json!([{"signerName": KUBE_CLIENT_SIGNER}]);
        assert!(asked(json!({"kubeClientDriver": "token", "registrations": client})));
        assert!(!asked(json!({"kubeClientDriver": "csr", "registrations": client})));
        assert!(!asked(
            json!({"kubeClientDriver": "token", "registrations": [{"signerName": "example.com/foo"}]})
        ));
    }
}
