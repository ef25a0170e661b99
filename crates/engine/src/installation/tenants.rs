//! The objects for the tenant options.

use std::collections::{BTreeMap, BTreeSet};

use object::Object;
use serde_json::json;

use super::{InstallationError, InstallationOptions};
use crate::registration::rbac::RBAC;
use api::names::OPERATOR;

/// The name of the Role for reading credentials of repositories.
pub const CONFIG_SECRETS: &str = "wheelwright-config-secrets";
/// The name of the Role for impersonating service accounts.
const IMPERSONATE: &str = "wheelwright-impersonate";

/// Returns the operator's roles in the namespaces of tenants. `chart` contains the roles in its own namespace.
pub(super) fn objects(
    namespace: &str,
    options: &InstallationOptions,
    chart: &[Object],
) -> Result<Vec<Object>, InstallationError> {
    let mut objects = Vec::new();
    let namespaces: BTreeSet<&String> = options.config_namespaces.iter().flatten().collect();
    for tenant in namespaces.into_iter().filter(|tenant| !tenant.is_empty() && *tenant != namespace) {
        for one in chart.iter().filter(|one| one.name() == CONFIG_SECRETS) {
            let mut one = one.clone();
            one.metadata_mut().insert("namespace".into(), json!(tenant));
            objects.push(one);
        }
    }
    let mut accounts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for account in options.service_accounts.iter().flatten().filter(|account| !account.is_empty()) {
        let (namespace, name) =
            account.split_once('/').ok_or_else(|| InstallationError::Account(account.clone()))?;
        accounts.entry(namespace).or_default().push(name);
    }
    for (tenant, names) in accounts {
        let rule = json!({
            "apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": names, "verbs": ["impersonate"],
        });
        let metadata = json!({"name": IMPERSONATE, "namespace": tenant});
        let version = format!("{RBAC}/v1");
        objects.push(Object::from_value(json!({
            "apiVersion": version, "kind": "Role", "metadata": metadata, "rules": [rule],
        }))?);
        objects.push(Object::from_value(json!({
            "apiVersion": version, "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": IMPERSONATE},
            "subjects": [{"kind": "ServiceAccount", "name": OPERATOR, "namespace": namespace}],
        }))?);
    }
    Ok(objects)
}
