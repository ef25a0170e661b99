//! Deployment fields that depend on the options of an installation.

use object::Object;
use serde_json::{Map, Value, json};

use super::{InstallationError, InstallationOptions};
use api::names::{INSTALL_OPTIONS_ANNOTATION, OPERATOR};

/// Returns the pod spec of a Deployment.
pub(super) fn pod_of(deployment: &mut Object) -> Result<&mut Map<String, Value>, InstallationError> {
    let template = deployment.field_mut("spec").get_mut("template");
    let pod = template.and_then(|template| template.get_mut("spec")?.as_object_mut());
    pod.ok_or(InstallationError::Missing("pod"))
}

/// Returns the single container of a Deployment.
pub(super) fn container_of(deployment: &mut Object) -> Result<&mut Map<String, Value>, InstallationError> {
    let container = pod_of(deployment)?.get_mut("containers").and_then(|all| all.get_mut(0)?.as_object_mut());
    container.ok_or(InstallationError::Missing("container"))
}

/// Sets the Deployment fields that depend on the options. The operator's Deployment also records the options.
pub(super) fn configure(
    deployment: &mut Object,
    options: &InstallationOptions,
) -> Result<(), InstallationError> {
    let InstallationOptions {
        image,
        replicas,
        controllers,
        profile: _,
        git_hosts,
        otlp_endpoint,
        config_namespaces: _,
        service_accounts: _,
        addon_roles: _,
        custom_signers: _,
        token_add_ons: _,
        cluster_profiles,
        dashboard: _,
        env,
        extra_args,
    } = options;
    let is_operator = deployment.name() == OPERATOR;
    if let Some(replicas) = replicas.filter(|_| is_operator) {
        deployment.field_mut("spec").insert("replicas".into(), json!(replicas));
    }
    let container = container_of(deployment)?;
    if let Some(image) = image {
        container.insert("image".into(), json!(image));
    }
    let variables: Vec<Value> = env
        .iter()
        .flatten()
        .filter_map(|variable| variable.split_once('='))
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect();
    if !variables.is_empty()
        && let Some(entries) = container.entry("env").or_insert_with(|| json!([])).as_array_mut()
    {
        entries.extend(variables);
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
    let hosts = git_hosts
        .iter()
        .flatten()
        .filter(|host| !host.is_empty())
        .map(|host| json!(format!("--git-hosts={host}")))
        .collect::<Vec<_>>();
    let at = place(arguments, "--webhook-listen=");
    arguments.splice(at..at, hosts);
    if *cluster_profiles == Some(true) {
        arguments.insert(place(arguments, "--webhook-listen="), json!("--cluster-profiles"));
    }
    let endpoint = otlp_endpoint.iter().filter(|endpoint| !endpoint.is_empty());
    arguments.extend(endpoint.map(|endpoint| json!(format!("--otlp-endpoint={endpoint}"))));
    arguments
        .extend(extra_args.iter().flatten().filter(|argument| !argument.is_empty()).map(|text| json!(text)));
    let annotations = json!({ INSTALL_OPTIONS_ANNOTATION: serde_json::to_string(options)? });
    deployment.metadata_mut().insert("annotations".into(), annotations);
    Ok(())
}

/// Returns the index of an argument, or the end of the list.
fn place(arguments: &[Value], start: &str) -> usize {
    let is_it = |argument: &Value| argument.as_str().is_some_and(|text| text.starts_with(start));
    arguments.iter().position(is_it).unwrap_or(arguments.len())
}
