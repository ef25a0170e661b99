//! The objects that the manager deploys.

use addon_sdk::{AddOn, AddOnOptions, Installation, render};
use api::names::ADDON_GROUP;
use k8s_openapi::api::rbac::v1::PolicyRule;
use object::Object;

pub(crate) struct HelloWorld;

impl AddOn for HelloWorld {
    const NAME: &'static str = "helloworld";

    fn manifests(installation: &Installation<'_>) -> Result<Vec<Object>, String> {
        render(&[include_str!("../manifests/agent.yaml")], installation)
    }

    fn options() -> AddOnOptions {
        let may_read = |group: &str, resource: &str| PolicyRule {
            api_groups: Some(vec![group.to_owned()]),
            resources: Some(vec![resource.to_owned()]),
            verbs: ["get", "list", "watch"].map(str::to_owned).into(),
            ..PolicyRule::default()
        };
        let hub_permissions = vec![may_read("", "configmaps"), may_read(ADDON_GROUP, "managedclusteraddons")];
        AddOnOptions { hub_permissions: Some(hub_permissions), ..AddOnOptions::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::addon::v1alpha1::{AddOnDeploymentConfigSpec, ManagedClusterAddOn};
    use api::cluster::v1::ManagedCluster;
    use serde_json::json;

    #[test]
    fn the_agent_runs_in_the_namespace_and_from_the_image_of_its_configuration() {
        let addon: ManagedClusterAddOn =
            serde_json::from_value(json!({"metadata": {"name": "helloworld", "namespace": "c1"}})).unwrap();
        let cluster: ManagedCluster =
            serde_json::from_value(json!({"metadata": {"name": "c1"}, "spec": {}})).unwrap();
        let config: AddOnDeploymentConfigSpec = serde_json::from_value(json!({
            "agentInstallNamespace": "hello", "customizedVariables": [{"name": "IMAGE", "value": "hello:2"}],
        }))
        .unwrap();
        let manifests =
            HelloWorld::manifests(&Installation { addon: &addon, cluster: &cluster, config }).unwrap();
        let agent = manifests.iter().find(|manifest| manifest.kind() == "Deployment").unwrap();
        assert_eq!(agent.namespace(), "hello");
        let containers = agent.at(&["spec", "template", "spec", "containers"]).unwrap();
        assert_eq!(containers[0]["image"], "hello:2");
    }
}
