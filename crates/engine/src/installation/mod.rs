//! The objects of an installed hub side.
//!
//! They are those that helm renders from `charts/wheelwright` with the chart's own values. They are kept in
//! `operator.yaml` and `dashboard.yaml`, and a test compares the files with helm's output. Options change the
//! fields that the chart's values of the same names change.

mod addon_roles;
mod tenants;

use api::crds;
use object::Object;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The chart as helm renders it for the namespace [`PLACEHOLDER`].
const RENDERED: &str = include_str!("operator.yaml");
/// What helm renders more with `dashboard.enabled`.
const RENDERED_DASHBOARD: &str = include_str!("dashboard.yaml");
/// Stands for the namespace in [`RENDERED`].
const PLACEHOLDER: &str = "release-namespace";
/// Annotation of the Deployment with the options it was installed with, as JSON.
const OPTIONS_ANNOTATION: &str = "gitops.wheelwright.dev/install-options";
/// Name of the operator's Deployment, role and service account, as in the chart.
pub const OPERATOR: &str = "wheelwright-operator";
/// Name of the Service of the webhook, and of the Secret with its certificate.
pub const WEBHOOK: &str = "wheelwright-webhook";
/// Name of the Deployment of the dashboard, and of the Secret with its certificate.
pub const DASHBOARD: &str = "wheelwright-dashboard";
/// Label of all installed objects.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// The options of an installation. The values of the chart have the same names and defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Options {
    /// Image of the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Number of operators; one leads and the others wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// Controllers to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controllers: Option<String>,
    /// Hosts that repositories may be on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_hosts: Option<Vec<String>>,
    /// Collector of traces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otlp_endpoint: Option<String>,
    /// Namespaces that hold ConfigRepos, besides the operator's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_namespaces: Option<Vec<String>>,
    /// Service accounts as which ConfigRepos act, as namespace/name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_accounts: Option<Vec<String>>,
    /// Names of ClusterRoles and Roles that the operator may give to the agents of add-ons.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addon_roles: Option<Vec<String>>,
    /// Whether the dashboard runs too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dashboard: Option<bool>,
    /// Further arguments of `wheelwright operator`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_args: Option<Vec<String>>,
}

/// The rendered chart of this program cannot be used, which is a bug.
#[derive(Debug, thiserror::Error)]
pub enum InstallationError {
    /// It is not YAML.
    #[error("cannot read the rendered chart")]
    Yaml(#[from] serde_saphyr::Error),
    /// A document is no object.
    #[error("the rendered chart has a document that is no object")]
    Object(#[from] object::Malformed),
    /// The Deployment lacks a field.
    #[error("the Deployment of the rendered chart has no {0}")]
    Missing(&'static str),
    /// A service account has no namespace.
    #[error("{0:?} is no service account; write NAMESPACE/NAME")]
    Account(String),
    /// The options cannot be written.
    #[error("cannot write the options")]
    Options(#[from] serde_json::Error),
}

impl Options {
    /// Returns these options, completed by those of an installation.
    #[must_use]
    pub fn over(self, installed: Self) -> Self {
        let Self {
            image,
            replicas,
            controllers,
            git_hosts,
            otlp_endpoint,
            config_namespaces,
            service_accounts,
            addon_roles,
            dashboard,
            extra_args,
        } = self;
        Self {
            image: image.or(installed.image),
            replicas: replicas.or(installed.replicas),
            controllers: controllers.or(installed.controllers),
            git_hosts: git_hosts.or(installed.git_hosts),
            otlp_endpoint: otlp_endpoint.or(installed.otlp_endpoint),
            config_namespaces: config_namespaces.or(installed.config_namespaces),
            service_accounts: service_accounts.or(installed.service_accounts),
            addon_roles: addon_roles.or(installed.addon_roles),
            dashboard: dashboard.or(installed.dashboard),
            extra_args: extra_args.or(installed.extra_args),
        }
    }

    /// Reads the options that a Deployment was installed with.
    ///
    /// # Errors
    /// Its annotation is not what an installation writes.
    pub fn of(deployment: &Object) -> Result<Self, serde_json::Error> {
        let annotations = deployment.annotations();
        annotations
            .get(OPTIONS_ANNOTATION)
            .map_or_else(|| Ok(Self::default()), |text| serde_json::from_str(text))
    }
}

/// Returns all objects of an installation in the order in which they are applied: definitions, the namespace,
/// and the objects of the chart, the Deployments last. All but the namespace have the label [`MANAGED_BY`].
///
/// # Errors
/// The rendered chart of this program cannot be used.
pub fn manifests(
    namespace: &str,
    options: &Options,
    managed_by: &str,
) -> Result<Vec<Object>, InstallationError> {
    let mut objects: Vec<Object> = crds::all().iter().map(Object::from_typed).collect();
    let own = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    objects.push(Object::from_value(own)?);
    let mut rendered = read(RENDERED, namespace)?;
    rendered.extend(tenants::objects(namespace, options, &rendered)?);
    addon_roles::add(&mut rendered, namespace, options)?;
    if options.dashboard == Some(true) {
        rendered.extend(read(RENDERED_DASHBOARD, namespace)?);
    }
    let (deployments, others): (Vec<_>, Vec<_>) =
        rendered.into_iter().partition(|object| object.kind() == "Deployment");
    let is_wanted =
        |object: &Object| object.kind() != "PodDisruptionBudget" || options.replicas.is_none_or(|n| n > 1);
    objects.extend(others.into_iter().filter(is_wanted));
    for mut deployment in deployments {
        configure(&mut deployment, options)?;
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
    let values: Vec<Value> = serde_saphyr::from_multiple(&rendered.replace(PLACEHOLDER, namespace))?;
    Ok(values.into_iter().map(Object::from_value).collect::<Result<_, _>>()?)
}

/// Sets the fields of a Deployment that the options determine. That of the operator records the options.
fn configure(deployment: &mut Object, options: &Options) -> Result<(), InstallationError> {
    let Options {
        image,
        replicas,
        controllers,
        git_hosts,
        otlp_endpoint,
        config_namespaces: _,
        service_accounts: _,
        addon_roles: _,
        dashboard: _,
        extra_args,
    } = options;
    let is_operator = deployment.name() == OPERATOR;
    if let Some(replicas) = replicas.filter(|_| is_operator) {
        deployment.field_mut("spec").insert("replicas".into(), json!(replicas));
    }
    let pod = deployment.field_mut("spec").get_mut("template").and_then(|template| template.get_mut("spec"));
    let container = pod.and_then(|pod| pod.pointer_mut("/containers/0"));
    let container =
        container.and_then(Value::as_object_mut).ok_or(InstallationError::Missing("container"))?;
    if let Some(image) = image {
        container.insert("image".into(), json!(image));
    }
    if !is_operator {
        return Ok(());
    }
    let Some(Value::Array(arguments)) = container.get_mut("args") else {
        return Err(InstallationError::Missing("args"));
    };
    if let Some(controllers) = controllers {
        let given =
            |argument: &Value| argument.as_str().is_some_and(|text| text.starts_with("--controllers="));
        arguments.retain(|argument| !given(argument));
        arguments.insert(place(arguments, "--listen="), json!(format!("--controllers={controllers}")));
    }
    let hosts = git_hosts.iter().flatten().filter(|host| !host.is_empty());
    let hosts = hosts.map(|host| json!(format!("--git-hosts={host}"))).collect::<Vec<_>>();
    let at = place(arguments, "--webhook-listen=");
    arguments.splice(at..at, hosts);
    let endpoint = otlp_endpoint.iter().filter(|endpoint| !endpoint.is_empty());
    arguments.extend(endpoint.map(|endpoint| json!(format!("--otlp-endpoint={endpoint}"))));
    arguments
        .extend(extra_args.iter().flatten().filter(|argument| !argument.is_empty()).map(|text| json!(text)));
    let annotations = json!({ OPTIONS_ANNOTATION: serde_json::to_string(options)? });
    deployment.metadata_mut().insert("annotations".into(), annotations);
    Ok(())
}

/// Returns the index of an argument, or the end of the list.
fn place(arguments: &[Value], start: &str) -> usize {
    let is_it = |argument: &Value| argument.as_str().is_some_and(|text| text.starts_with(start));
    arguments.iter().position(is_it).unwrap_or(arguments.len())
}

/// Serves all versions of a definition that has a webhook on the hub: the operator wrote the webhook, and
/// clients use the versions.
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
    fn versions_that_a_webhook_converts_stay_served() {
        let wanted = || {
            let all = manifests("n", &Options::default(), "m").unwrap();
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
