//! The objects that the option for roles of add-ons adds and changes.

use object::Object;
use serde_json::{Value, json};

use super::{InstallationError, InstallationOptions, OPERATOR};

/// Name of the ClusterRole by which the operator gives roles to the agents of add-ons.
const ADDON_ROLES: &str = "wheelwright-operator-addon-roles";
/// The list of roles in an expression of the chart without the option.
const NO_ROLES: &str = "request.name in []";

/// Lets the operator give the roles: by a ClusterRole, and in the policy that restricts the operator.
pub(super) fn add(
    rendered: &mut Vec<Object>,
    namespace: &str,
    options: &InstallationOptions,
) -> Result<(), InstallationError> {
    let roles: Vec<&String> = options.addon_roles.iter().flatten().filter(|name| !name.is_empty()).collect();
    if roles.is_empty() {
        return Ok(());
    }
    let named = NO_ROLES.replace("[]", &json!(roles).to_string());
    for policy in rendered.iter_mut().filter(|one| one.kind() == "ValidatingAdmissionPolicy") {
        let Some(Value::Array(rules)) = policy.field_mut("spec").get_mut("validations") else { continue };
        for expression in rules.iter_mut().filter_map(|rule| rule.get_mut("expression")) {
            if let Some(text) = expression.as_str().map(|text| text.replace(NO_ROLES, &named)) {
                *expression = json!(text);
            }
        }
    }
    let group = "rbac.authorization.k8s.io";
    let version = format!("{group}/v1");
    let rule = json!({
        "apiGroups": [group], "resources": ["clusterroles", "roles"], "resourceNames": roles, "verbs": ["bind"],
    });
    rendered.push(Object::from_value(json!({
        "apiVersion": version, "kind": "ClusterRole", "metadata": {"name": ADDON_ROLES}, "rules": [rule],
    }))?);
    rendered.push(Object::from_value(json!({
        "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": ADDON_ROLES},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": ADDON_ROLES},
        "subjects": [{"kind": "ServiceAccount", "name": OPERATOR, "namespace": namespace}],
    }))?);
    Ok(())
}
