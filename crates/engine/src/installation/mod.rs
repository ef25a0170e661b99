//! The objects of an installed hub side.
//!
//! They are the objects that Helm renders from `charts/wheelwright` with default values. They are stored in
//! `operator.yaml` and `dashboard.yaml`, and a test compares these files with Helm's output. Options change the
//! same fields as the chart values with the same names.

mod addon_roles;
mod agent;
mod deployment;
mod options;
mod profile;
mod tenants;

use api::crds;
use object::Object;
use serde_json::{Value, json};

pub use agent::{AgentInstallation, agent_image, agent_manifests, keep_resources};
pub use options::{InstallationOptions, Profile};
pub use tenants::CONFIG_SECRETS;

/// The chart as rendered by Helm for the namespace [`PLACEHOLDER`].
const RENDERED: &str = include_str!("operator.yaml");
/// The objects that Helm adds with `dashboard.enabled`.
const RENDERED_DASHBOARD: &str = include_str!("dashboard.yaml");
/// The placeholder for the namespace in [`RENDERED`].
const PLACEHOLDER: &str = "release-namespace";
/// The label of all installed objects.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// The embedded chart is invalid, which is a bug, or an option is.
#[derive(Debug, thiserror::Error)]
pub enum InstallationError {
    /// The chart is not YAML.
    #[error("cannot read the rendered chart")]
    Yaml(#[from] serde_saphyr::Error),
    /// A document is not an object.
    #[error("the rendered chart has a document that is not an object")]
    Object(#[from] object::Malformed),
    /// The Deployment lacks a field.
    #[error("the Deployment of the rendered chart has no {0}")]
    Missing(&'static str),
    /// A service account has no namespace.
    #[error("{0:?} is not a service account; write NAMESPACE/NAME")]
    Account(String),
    /// The options cannot be serialized.
    #[error("cannot write the options")]
    Options(#[from] serde_json::Error),
}

/// Returns all objects of an installation in the order in which to apply them: definitions, the namespace, and
/// the objects of the chart, with Deployments last. All except the namespace have the label [`MANAGED_BY`].
///
/// # Errors
/// Fails if the embedded chart or an option is invalid.
pub fn manifests(
    namespace: &str,
    options: &InstallationOptions,
    managed_by: &str,
) -> Result<Vec<Object>, InstallationError> {
    let profiles = (options.cluster_profiles == Some(true)).then(crds::cluster_profiles);
    let mut objects: Vec<Object> = crds::all().iter().chain(&profiles).map(Object::from_typed).collect();
    let own = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    objects.push(Object::from_value(own)?);
    let mut rendered = read(RENDERED, namespace)?;
    rendered.extend(tenants::objects(namespace, options, &rendered)?);
    addon_roles::add(&mut rendered, namespace, options)?;
    if options.profile == Some(Profile::Ocm) {
        rendered.push(profile::ocm()?);
    }
    if options.dashboard == Some(true) {
        rendered.extend(read(RENDERED_DASHBOARD, namespace)?);
    }
    let (deployments, others): (Vec<_>, Vec<_>) =
        rendered.into_iter().partition(|object| object.kind() == "Deployment");
    let is_wanted =
        |object: &Object| object.kind() != "PodDisruptionBudget" || options.replicas.is_none_or(|n| n > 1);
    objects.extend(others.into_iter().filter(is_wanted));
    for mut deployment in deployments {
        deployment::configure(&mut deployment, options)?;
        objects.push(deployment);
    }
    for object in objects.iter_mut().filter(|object| object.kind() != "Namespace") {
        let labels = object.metadata_mut().entry("labels").or_insert_with(|| json!({}));
        if let Some(labels) = labels.as_object_mut() {
            labels.insert(MANAGED_BY.into(), managed_by.into());
        }
    }
    Ok(objects)
}

fn read(rendered: &str, namespace: &str) -> Result<Vec<Object>, InstallationError> {
    let mut values: Vec<Value> = serde_saphyr::from_multiple(rendered)?;
    values.iter_mut().for_each(|value| set_namespace(value, namespace));
    Ok(values.into_iter().map(Object::from_value).collect::<Result<_, _>>()?)
}

/// Replaces the namespace in all strings of a value. Replacing it in the YAML text would break names such as
/// `on` or `123`, which are not strings in YAML.
fn set_namespace(value: &mut Value, namespace: &str) {
    match value {
        Value::String(text) => *text = text.replace(PLACEHOLDER, namespace),
        Value::Array(items) => items.iter_mut().for_each(|item| set_namespace(item, namespace)),
        Value::Object(fields) => fields.values_mut().for_each(|field| set_namespace(field, namespace)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Keeps serving all versions of a definition with a webhook on the hub, because the operator wrote the webhook
/// and clients use the versions.
pub fn keep_conversion(wanted: &mut Object, present: &Object) {
    let is_converted =
        present.at(&["spec", "conversion", "strategy"]).is_some_and(|strategy| strategy == "Webhook");
    if wanted.kind() != "CustomResourceDefinition" || !is_converted {
        return;
    }
    let Some(Value::Array(versions)) = wanted.field_mut("spec").get_mut("versions") else { return };
    for version in versions.iter_mut().filter_map(Value::as_object_mut) {
        version.insert("served".into(), true.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_that_yaml_reads_as_a_boolean_or_a_number_stays_a_name() {
        let objects_in = |namespace: &str| {
            let options = InstallationOptions { dashboard: Some(true), ..InstallationOptions::default() };
            let all = manifests(namespace, &options, "m").unwrap();
            all.iter().filter(|one| one.namespace() == namespace).count()
        };
        assert!(objects_in("elsewhere") > 0);
        for namespace in ["n", "on", "123", "1e3", "null"] {
            assert_eq!(objects_in(namespace), objects_in("elsewhere"), "{namespace}");
        }
    }

    #[test]
    fn versions_that_a_webhook_converts_stay_served() {
        let wanted = || {
            let all = manifests("n", &InstallationOptions::default(), "m").unwrap();
            all.into_iter().find(|one| crds::CONVERTIBLE.contains(&one.name())).unwrap()
        };
        let served = |strategy: &str| -> Vec<Value> {
            let mut object = wanted();
            let spec = json!({"conversion": {"strategy": strategy}});
            keep_conversion(&mut object, &Object::from_value(json!({"kind": "K", "spec": spec})).unwrap());
            let versions = object.at(&["spec", "versions"]).and_then(Value::as_array).unwrap();
            versions.iter().map(|version| version["served"].clone()).collect()
        };
        assert_eq!(
            (served("None"), served("Webhook")),
            (vec![json!(true), json!(false)], vec![json!(true); 2])
        );
    }
}
