//! Checks that configurations produce a valid add-on, before any cluster gets them.
//!
//! The check renders the add-on for a fictitious cluster and finds mistakes that would affect every cluster.
//! Mistakes that depend on a cluster, for example in its image registries, show up only on that cluster.

use serde_json::Value;

use super::error::AddOnError;
use super::hosting::{Target, divide};
use super::registration::{Sources, role_bindings};
use super::template::{self, TemplateInput};
use super::works;
use api::addon::v1alpha1::ManagedClusterAddOn;
use object::Object;

/// The name of the fictitious cluster.
const ANY_CLUSTER: &str = "cluster";

/// Additional checks, beyond errors that affect every cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CheckOptions {
    /// Rejects undefined variables.
    pub is_strict: bool,
    /// Rejects unknown manifest locations, because a cluster hosts the add-on.
    pub is_hosted: bool,
}

/// Renders an add-on as if for a cluster.
///
/// # Errors
/// Fails if the template or its deployment configuration is invalid.
pub fn check(addon: &str, sources: &Sources, options: CheckOptions) -> Result<(), AddOnError> {
    let CheckOptions { is_strict, is_hosted } = options;
    let Sources { template, config } = sources;
    let input =
        TemplateInput { addon, cluster: ANY_CLUSTER, template, config: config.as_ref(), registries: None };
    let undefined = if is_strict { undefined(&input) } else { None };
    if let Some((index, name)) = undefined {
        return Err(AddOnError::Undefined { index, name });
    }
    let manifests = template::render(&input)?;
    if let Some(index) = manifests.iter().position(is_nothing) {
        return Err(AddOnError::NoObject { index });
    }
    let mut any = ManagedClusterAddOn::default();
    any.metadata.name = Some(addon.to_owned());
    any.metadata.namespace = Some(ANY_CLUSTER.to_owned());
    role_bindings(&any, template)?;
    divide(manifests.clone(), is_hosted)?;
    works::build(&Target::managed(&any, &[]), manifests, &[], &template.agent_spec)?;
    Ok(())
}

/// Returns the first undefined variable in the template, with the index of its manifest.
fn undefined(input: &TemplateInput<'_>) -> Option<(usize, String)> {
    let variables = template::variables(input, template::install_namespace(input.config));
    let manifests = input.template.agent_spec.workload.manifests.iter().enumerate();
    manifests.into_iter().find_map(|(index, manifest)| {
        // Outside strings, JSON never has two adjacent opening braces.
        let text = Value::Object(manifest.clone()).to_string();
        let mut names = text.split("{{").skip(1).filter_map(|rest| Some(rest.split_once("}}")?.0));
        let unknown = names.find(|name| !variables.contains_key(*name))?;
        Some((index, unknown.to_owned()))
    })
}

fn is_nothing(manifest: &Object) -> bool {
    manifest.api_version().is_empty() || manifest.kind().is_empty() || manifest.name().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::names::HOSTED_MANIFEST_LOCATION;
    use serde_json::json;

    fn checked(manifest: Value, registration: Value, config: Value, is_strict: bool) -> Result<(), String> {
        checked_with(manifest, registration, config, CheckOptions { is_strict, is_hosted: false })
    }

    fn checked_with(
        manifest: Value,
        registration: Value,
        config: Value,
        options: CheckOptions,
    ) -> Result<(), String> {
        let workload = json!({"workload": {"manifests": [manifest]}});
        let template = json!({"addonName": "a", "agentSpec": workload, "registration": registration});
        let sources = Sources {
            template: serde_json::from_value(template).unwrap(),
            config: serde_json::from_value(config).unwrap(),
        };
        check("a", &sources, options).map_err(|error| error.to_string())
    }

    fn map(value: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "ns"}, "data": {"k": value}})
    }

    #[test]
    fn an_error_on_every_cluster_is_found_without_a_cluster() {
        let none = || json!([]);
        let check = |manifest, registration, config, want: &str| {
            assert_eq!(checked(manifest, registration, config, false).unwrap_err(), want);
        };
        check(
            map("{{X"),
            none(),
            Value::Null,
            r#"manifest 0 of the template: unclosed variable in "{{X": add }}"#,
        );
        check(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{NONE}}"}}),
            none(),
            Value::Null,
            "manifest 0 of the template has no apiVersion, kind or name",
        );
        check(map("x"), json!([{"type": "CustomSigner"}]), Value::Null, "custom signer is nil");
        check(
            map("x"),
            json!([{"type": "KubeClient", "kubeClient": {"hubPermissions": [{"type": "CurrentCluster"}]}}]),
            Value::Null,
            "a hub permission of type CurrentCluster has no cluster role",
        );
        let requirement = json!({"containerID": "x", "resources": {}});
        check(map("x"), none(), json!({"resourceRequirements": [requirement]}), "invalid ContainerID: x");
        let large = "x".repeat(600 << 10);
        assert!(checked(map(&large), none(), Value::Null, false).is_err());
        assert_eq!(checked(map("{{CLUSTER_NAME}} {{NONE}}"), none(), Value::Null, false), Ok(()));
    }

    #[test]
    fn an_unknown_location_is_refused_if_a_cluster_hosts_the_addon() {
        let mut manifest = map("x");
        manifest["metadata"]["annotations"] = json!({HOSTED_MANIFEST_LOCATION: "elsewhere"});
        let check = |is_hosted| {
            let options = CheckOptions { is_strict: false, is_hosted };
            checked_with(manifest.clone(), json!([]), Value::Null, options)
        };
        assert_eq!(check(false), Ok(()), "as in OCM");
        assert_eq!(check(true).unwrap_err(), "not supported manifest location: elsewhere");
    }

    #[test]
    fn a_variable_that_nothing_defines_is_refused_in_strict_mode() {
        let config =
            json!({"customizedVariables": [{"name": "X", "value": "x"}], "agentInstallNamespace": "n"});
        let every = "{{X}} {{CLUSTER_NAME}} {{INSTALL_NAMESPACE}} {{HUB_KUBECONFIG}}";
        let register = || json!([{"type": "KubeClient"}]);
        assert_eq!(checked(map(every), register(), config.clone(), true), Ok(()));
        assert_eq!(
            checked(map(every), Value::Null, config, true).unwrap_err(),
            "manifest 0 of the template: undefined variable {{HUB_KUBECONFIG}}"
        );
    }
}
