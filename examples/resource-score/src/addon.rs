//! The objects that the manager deploys.

use addon_sdk::{AddOn, AddOnOptions, Installation, render};
use k8s_openapi::api::rbac::v1::PolicyRule;
use object::Object;

pub(crate) struct ResourceScore;

impl AddOn for ResourceScore {
    const NAME: &'static str = "resource-score";

    fn manifests(installation: &Installation<'_>) -> Result<Vec<Object>, String> {
        render(&[include_str!("../manifests/agent.yaml")], installation)
    }

    fn options() -> AddOnOptions {
        let may = |verbs: &[&str], group: &str, resource: &str| PolicyRule {
            api_groups: Some(vec![format!("{group}.open-cluster-management.io")]),
            resources: Some(vec![resource.to_owned()]),
            verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
            ..PolicyRule::default()
        };
        let hub_permissions = vec![
            may(&["get", "list", "watch"], "addon", "managedclusteraddons"),
            may(&["get", "list", "watch", "create", "delete"], "cluster", "addonplacementscores"),
            may(&["patch"], "cluster", "addonplacementscores/status"),
        ];
        AddOnOptions { hub_permissions: Some(hub_permissions), ..AddOnOptions::default() }
    }
}
