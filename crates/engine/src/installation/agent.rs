//! The objects of an agent, as Helm renders them from `charts/wheelwright-agent` with default values.

use object::Object;
use serde_json::{Map, Value, json};

use super::deployment::{container_of, pod_of};
use super::{InstallationError, read};

/// The rendered chart, with a placeholder namespace that [`read`] replaces.
const RENDERED: &str = include_str!("agent.yaml");
/// The agent's argument with the name of its cluster.
const CLUSTER: &str = "--spoke-cluster-name=";

/// An agent to install.
#[derive(Clone, Copy, Debug)]
pub struct AgentInstallation<'a> {
    /// The namespace of the agent.
    pub namespace: &'a str,
    /// The name of the cluster on the hub.
    pub cluster: &'a str,
    /// The image of the agent.
    pub image: &'a str,
    /// The pull secrets for the image.
    pub image_pull_secrets: &'a [String],
}

/// Returns the image of agents next to an operator's image: `wheelwright-agent` with the same tag. An image with
/// another name, without a tag or with a digest is returned as is, because the operator's image runs agents too.
pub fn agent_image(operator: &str) -> String {
    match operator.rsplit_once(':') {
        Some((repository, tag))
            if !operator.contains('@') && repository.rsplit('/').next() == Some("wheelwright") =>
        {
            format!("{repository}-agent:{tag}")
        }
        _ => operator.to_owned(),
    }
}

/// Returns the objects of an agent, with the Deployment last.
///
/// # Errors
/// Fails if the embedded chart is invalid.
pub fn agent_manifests(agent: AgentInstallation<'_>) -> Result<Vec<Object>, InstallationError> {
    let AgentInstallation { namespace, cluster, image, image_pull_secrets } = agent;
    let mut objects = read(RENDERED, namespace)?;
    for deployment in objects.iter_mut().filter(|object| object.kind() == "Deployment") {
        if !image_pull_secrets.is_empty() {
            let secrets: Vec<Value> = image_pull_secrets.iter().map(|name| json!({"name": name})).collect();
            pod_of(deployment)?.insert("imagePullSecrets".into(), secrets.into());
        }
        set_container(container_of(deployment)?, image, cluster)?;
    }
    Ok(objects)
}

fn set_container(
    container: &mut Map<String, Value>,
    image: &str,
    cluster: &str,
) -> Result<(), InstallationError> {
    container.insert("image".into(), image.into());
    let mut arguments = container.get_mut("args").and_then(Value::as_array_mut).into_iter().flatten();
    let is_it = |argument: &&mut Value| argument.as_str().is_some_and(|text| text.starts_with(CLUSTER));
    let argument = arguments.find(is_it).ok_or(InstallationError::Missing(CLUSTER))?;
    *argument = format!("{CLUSTER}{cluster}").into();
    Ok(())
}

/// Keeps the resources of an existing agent. People size them for their cluster, and a lower memory limit could
/// kill a working agent.
pub fn keep_resources(wanted: &mut Object, present: &Object) {
    let containers = ["spec", "template", "spec", "containers"];
    let mut present = present
        .at(&containers)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|container| container.get("name") == Some(&json!("agent")));
    let resources = present.next().and_then(|container| container.get("resources"));
    if let (Ok(container), Some(resources)) = (container_of(wanted), resources) {
        container.insert("resources".into(), resources.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_of_agents_is_next_to_the_operators_unless_that_has_another_name() {
        for (operator, agent) in [
            ("wheelwright:0.1.0", "wheelwright-agent:0.1.0"),
            ("example.com:5000/a/wheelwright:1", "example.com:5000/a/wheelwright-agent:1"),
            ("a/wheelwright:1@sha256:00", "a/wheelwright:1@sha256:00"),
            ("example.com/mirrored-wheelwright:1", "example.com/mirrored-wheelwright:1"),
            ("example.com:5000/wheelwright", "example.com:5000/wheelwright"),
            ("example.com/wheelwright@sha256:00", "example.com/wheelwright@sha256:00"),
        ] {
            assert_eq!(agent_image(operator), agent);
        }
    }

    #[test]
    fn an_existing_agent_keeps_its_resources() {
        let agent = AgentInstallation { namespace: "n", cluster: "c", image: "i", image_pull_secrets: &[] };
        let resources_beside = |present: Value| {
            let spec = json!({"template": {"spec": {"containers": [present]}}});
            let present = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec});
            let mut wanted = agent_manifests(agent).unwrap().pop().unwrap();
            keep_resources(&mut wanted, &Object::from_value(present).unwrap());
            wanted.at(&["spec", "template", "spec", "containers"]).unwrap()[0]["resources"].clone()
        };
        for resources in [json!({"limits": {"memory": "1Gi"}}), json!({})] {
            assert_eq!(resources_beside(json!({"name": "agent", "resources": resources})), resources);
        }
        assert_eq!(resources_beside(json!({"name": "other"}))["limits"]["memory"], "256Mi");
    }

    #[test]
    fn the_agent_of_the_chart_gets_the_cluster_the_image_and_the_pull_secrets() {
        let secrets = ["registry".to_owned()];
        let agent = AgentInstallation {
            namespace: "second",
            cluster: "release-namespace",
            image: "example.com/w:2",
            image_pull_secrets: &secrets,
        };
        let objects = agent_manifests(agent).unwrap();
        let deployment = objects.last().unwrap();
        assert_eq!((deployment.kind(), deployment.namespace()), ("Deployment", "second"));
        let pod = deployment.at(&["spec", "template", "spec"]).unwrap();
        let container = &pod["containers"][0];
        assert_eq!(container["image"], "example.com/w:2");
        assert_eq!(pod["imagePullSecrets"], json!([{"name": "registry"}]));
        let arguments = container["args"].as_array().unwrap();
        for wanted in ["--namespace=second", "--spoke-cluster-name=release-namespace"] {
            assert!(arguments.contains(&json!(wanted)), "{wanted}: {arguments:?}");
        }
    }
}
