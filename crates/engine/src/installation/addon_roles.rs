//! The operator's roles for options: granting roles to add-on agents, signing for signers, managing service
//! accounts of agents that register by token, and ClusterProfiles.

use object::Object;
use serde_json::{Value, json};

use super::{InstallationError, InstallationOptions};
use crate::registration::rbac::RBAC;
use api::names::OPERATOR;
use api::names::cluster_profile::{CLUSTER_PROFILES_ROLE, MULTICLUSTER_GROUP};

/// The role list in an expression of the chart if the option is not set.
const NO_ROLES: &str = "request.name in []";

/// Adds the objects for the options. The roles that the operator grants also go into the policy that restricts
/// it.
pub(super) fn add(
    rendered: &mut Vec<Object>,
    namespace: &str,
    options: &InstallationOptions,
) -> Result<(), InstallationError> {
    let mut grant = |name: &str, rules: Value| -> Result<(), InstallationError> {
        rendered.extend(role(name, namespace, &rules)?);
        Ok(())
    };
    let signers = named(options.custom_signers.as_ref());
    if !signers.is_empty() {
        let group = "certificates.k8s.io";
        grant(
            "wheelwright-operator-signers",
            json!([
                {"apiGroups": [group], "resources": ["signers"], "resourceNames": signers, "verbs": ["approve", "sign"]},
                {"apiGroups": [group], "resources": ["certificatesigningrequests/status"], "verbs": ["patch"]},
            ]),
        )?;
    }
    let roles = named(options.addon_roles.as_ref());
    if !roles.is_empty() {
        let resources = ["clusterroles", "roles"];
        let rule =
            json!({"apiGroups": [RBAC], "resources": resources, "resourceNames": roles, "verbs": ["bind"]});
        grant("wheelwright-operator-addon-roles", json!([rule]))?;
    }
    let add_ons = named(options.token_add_ons.as_ref());
    if !add_ons.is_empty() {
        grant("wheelwright-operator-tokens", token_rules(&add_ons))?;
    }
    if options.cluster_profiles == Some(true) {
        let verbs = ["get", "list", "watch", "create", "patch", "delete"];
        grant(
            CLUSTER_PROFILES_ROLE,
            json!([
                {"apiGroups": [MULTICLUSTER_GROUP], "resources": ["clusterprofiles"], "verbs": verbs},
                {"apiGroups": [MULTICLUSTER_GROUP], "resources": ["clusterprofiles/status"], "verbs": ["patch"]},
            ]),
        )?;
    }
    allow(rendered, &roles);
    Ok(())
}

/// Returns the names in an option. A single empty name stands for an empty list.
fn named(names: Option<&Vec<String>>) -> Vec<&str> {
    names.into_iter().flatten().map(String::as_str).filter(|name| !name.is_empty()).collect()
}

fn token_rules(add_ons: &[&str]) -> Value {
    let all = |suffix: &str| add_ons.iter().map(|name| format!("{name}{suffix}")).collect::<Vec<_>>();
    let (accounts, roles) = (all("-agent"), all("-token-role"));
    let (read, write) = (["get", "list", "watch"], ["create", "patch", "delete"]);
    json!([
        {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": read},
        {"apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": accounts, "verbs": write},
        {"apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": accounts, "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["subscribe"]},
        {"apiGroups": [RBAC], "resources": ["roles"], "verbs": read},
        {"apiGroups": [RBAC], "resources": ["roles"], "resourceNames": roles, "verbs": write},
    ])
}

/// Adds the roles to the policy that restricts the operator.
fn allow(rendered: &mut [Object], roles: &[&str]) {
    let named = NO_ROLES.replace("[]", &json!(roles).to_string());
    for policy in rendered.iter_mut().filter(|one| one.kind() == "ValidatingAdmissionPolicy") {
        let Some(Value::Array(rules)) = policy.field_mut("spec").get_mut("validations") else { continue };
        for expression in rules.iter_mut().filter_map(|rule| rule.get_mut("expression")) {
            if let Some(text) = expression.as_str().map(|text| text.replace(NO_ROLES, &named)) {
                *expression = json!(text);
            }
        }
    }
}

/// Returns a ClusterRole and its binding to the operator.
fn role(name: &str, namespace: &str, rules: &Value) -> Result<[Object; 2], InstallationError> {
    let version = format!("{RBAC}/v1");
    let role =
        json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
    let binding = json!({
        "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": OPERATOR, "namespace": namespace}],
    });
    Ok([Object::from_value(role)?, Object::from_value(binding)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_adds_a_role() {
        let all = |options: &InstallationOptions| {
            let mut rendered = Vec::new();
            add(&mut rendered, "ns", options).unwrap();
            rendered.iter().map(|one| format!("{} {}", one.kind(), one.name())).collect::<Vec<_>>()
        };
        let names = |name: &str| Some(vec![name.to_owned()]);
        let none = InstallationOptions { token_add_ons: names(""), ..InstallationOptions::default() };
        assert_eq!(all(&none), [""; 0]);
        let some = InstallationOptions {
            custom_signers: names("example.com/foo"),
            addon_roles: names("agent"),
            token_add_ons: names("msa"),
            cluster_profiles: Some(true),
            ..InstallationOptions::default()
        };
        let roles = ["signers", "addon-roles", "tokens", "cluster-profiles"];
        let roles = roles.map(|name| format!("wheelwright-operator-{name}"));
        let expected = roles
            .iter()
            .flat_map(|name| ["ClusterRole", "ClusterRoleBinding"].map(|kind| format!("{kind} {name}")));
        assert_eq!(all(&some), expected.collect::<Vec<_>>());
        let accounts = &token_rules(&["msa"])[1]["resourceNames"];
        assert_eq!(accounts, &json!(["msa-agent"]));
    }
}
