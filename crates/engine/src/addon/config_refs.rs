//! Converts between the wire types of add-ons and the configurations of the engine.

use super::config::{Config, ConfigKind};
use api::addon::v1alpha1::{
    AddOnConfig, ClusterManagementAddOn, ConfigMeta, ConfigReference, ConfigReferent, ConfigSpecHash,
    DefaultConfigReference, InstallConfigReference, ManagedClusterAddOn,
};
use api::names::{ADDON_GROUP, ADDON_LIFECYCLE_ADDON_MANAGER, ADDON_LIFECYCLE_ANNOTATION, NO_DEFAULT_CONFIG};
use object::{Gvk, Key, ObjectRef};

/// The resource name of AddOnTemplate.
pub const TEMPLATES: &str = "addontemplates";
/// The resource name of AddOnDeploymentConfig.
pub const DEPLOYMENT_CONFIGS: &str = "addondeploymentconfigs";

/// Returns the group, version and kind in which the hub reads a configuration for hashing. OCM hashes the same
/// version.
pub fn config_gvk(kind: &ConfigKind) -> Option<Gvk> {
    let name = match (kind.group.as_str(), kind.resource.as_str()) {
        (ADDON_GROUP, TEMPLATES) => "AddOnTemplate",
        (ADDON_GROUP, DEPLOYMENT_CONFIGS) => "AddOnDeploymentConfig",
        _ => return None,
    };
    Some(Gvk { group: ADDON_GROUP.into(), version: "v1alpha1".into(), kind: name.into() })
}

/// Returns the object of a configuration; `None` for an unknown kind.
pub fn config_object(config: &Config) -> Option<ObjectRef> {
    Some(ObjectRef { gvk: config_gvk(&config.kind)?, key: config.key.clone() })
}

/// Returns true if a configuration is an AddOnTemplate.
pub fn is_template(config: &Config) -> bool {
    config.kind.group == ADDON_GROUP && config.kind.resource == TEMPLATES
}

/// Returns true if a configuration is an AddOnDeploymentConfig.
pub fn is_deployment_config(config: &Config) -> bool {
    config.kind.group == ADDON_GROUP && config.kind.resource == DEPLOYMENT_CONFIGS
}

/// Returns true if a template defines the add-on, so that the hub renders, deploys and probes it.
pub fn has_template(cma: &ClusterManagementAddOn) -> bool {
    cma.spec
        .supported_configs
        .iter()
        .any(|config| config.group == ADDON_GROUP && config.resource == TEMPLATES)
}

/// Returns true if the hub manages the configurations of an add-on: unless an annotation names a manager other
/// than the add-on manager.
pub fn is_managed(cma: &ClusterManagementAddOn) -> bool {
    let lifecycle =
        cma.metadata.annotations.as_ref().and_then(|annotations| annotations.get(ADDON_LIFECYCLE_ANNOTATION));
    lifecycle.is_none_or(|lifecycle| lifecycle == ADDON_LIFECYCLE_ADDON_MANAGER)
}

/// Returns true if the hub deploys an add-on, and therefore decides on the requests of its agents.
pub fn is_deployed(cma: &ClusterManagementAddOn) -> bool {
    is_managed(cma) && has_template(cma)
}

fn kind(group: &str, resource: &str) -> ConfigKind {
    ConfigKind { group: group.into(), resource: resource.into() }
}

/// Returns the default configurations of an add-on, with the hashes from its status.
pub fn defaults(cma: &ClusterManagementAddOn) -> Vec<Config> {
    let default = |ConfigMeta { group, resource, default_config, unknown: _ }: &ConfigMeta| {
        let ConfigReferent { namespace, name, unknown: _ } = default_config.as_ref()?;
        let key = Key::namespaced(namespace, name);
        let is_real = !name.is_empty() && name != NO_DEFAULT_CONFIG;
        is_real.then(|| Config { kind: kind(group, resource), key, hash: String::new() })
    };
    let configs = cma.spec.supported_configs.iter().filter_map(default);
    let status = cma.status.iter().flat_map(|status| &status.default_config_references);
    let known: Vec<Config> =
        status.filter_map(|r| Some(hashed(&r.group, &r.resource, r.desired_config.as_ref()?))).collect();
    configs.map(|config| with_hash(config, &known)).collect()
}

/// Returns the configurations that a placement or cluster names, with the hashes from `held`.
pub fn named(configs: &[AddOnConfig], known: &[Config]) -> Vec<Config> {
    let configs = configs.iter().map(|AddOnConfig { group, resource, namespace, name, unknown: _ }| {
        let key = Key::namespaced(namespace, name);
        Config { kind: kind(group, resource), key, hash: String::new() }
    });
    configs.map(|config| with_hash(config, known)).collect()
}

fn with_hash(mut config: Config, known: &[Config]) -> Config {
    if let Some(same) = known.iter().find(|other| other.is_same_object(&config)) {
        config.hash.clone_from(&same.hash);
    }
    config
}

/// Converts a status entry to a configuration.
pub fn hashed(group: &str, resource: &str, entry: &ConfigSpecHash) -> Config {
    Config {
        kind: kind(group, resource),
        key: Key::namespaced(&entry.namespace, &entry.name),
        hash: entry.spec_hash.clone(),
    }
}

fn spec_hash(config: &Config) -> ConfigSpecHash {
    ConfigSpecHash {
        namespace: config.key.namespace.clone(),
        name: config.key.name.clone(),
        spec_hash: config.hash.clone(),
        ..ConfigSpecHash::default()
    }
}

/// Returns the configurations that are assigned to an add-on on a cluster; `None` if an entry has no desired
/// configuration, as from older writers.
pub fn desired(references: &[ConfigReference]) -> Option<Vec<Config>> {
    references.iter().map(|r| Some(hashed(&r.group, &r.resource, r.desired_config.as_ref()?))).collect()
}

/// Returns the configurations that are assigned to an add-on on a cluster, from its status.
pub fn assigned(addon: &ManagedClusterAddOn) -> Option<Vec<Config>> {
    desired(&addon.status.as_ref()?.config_references)
}

/// Returns the configurations that succeeded on every cluster of a placement; `None` if there are no entries, or
/// one lacks such a configuration.
pub fn last_known_good(references: &[InstallConfigReference]) -> Option<Vec<Config>> {
    let good =
        references.iter().map(|r| Some(hashed(&r.group, &r.resource, r.last_known_good_config.as_ref()?)));
    good.collect::<Option<Vec<_>>>().filter(|configs| !configs.is_empty())
}

/// Returns the configurations that an add-on last ran successfully on a cluster; `None` if an entry has none.
pub fn applied(references: &[ConfigReference]) -> Option<Vec<Config>> {
    references.iter().map(|r| Some(hashed(&r.group, &r.resource, r.last_applied_config.as_ref()?))).collect()
}

/// The maximum length of a condition message that API servers accept.
const LONGEST_RECORD: usize = 32_768;

/// Serializes configurations into a condition message; `None` if the message would be too long.
pub fn written(configs: &[Config]) -> Option<String> {
    let text = serde_json::to_string(&default_references(configs)).ok()?;
    (text.len() <= LONGEST_RECORD).then_some(text)
}

/// Parses the result of [`written`].
pub fn read(text: &str) -> Option<Vec<Config>> {
    let entries: Vec<DefaultConfigReference> = serde_json::from_str(text).ok()?;
    let entries = entries.iter().map(|r| Some(hashed(&r.group, &r.resource, r.desired_config.as_ref()?)));
    entries.collect::<Option<Vec<_>>>().filter(|configs| !configs.is_empty())
}

/// Returns the references of an add-on that is assigned `configs`. They keep the previously applied
/// configurations by position within a kind, even if a configuration with another name replaces them.
pub fn references(
    configs: &[Config],
    before: &[ConfigReference],
    generation: impl Fn(&Config) -> i64,
) -> Vec<ConfigReference> {
    let place =
        |i: usize, config: &Config| configs.iter().take(i).filter(|other| other.kind == config.kind).count();
    let reference = |(i, config): (usize, &Config)| {
        let of_kind =
            before.iter().filter(|r| r.group == config.kind.group && r.resource == config.kind.resource);
        let before =
            of_kind.clone().find(|r| r.name == config.key.name && r.namespace == config.key.namespace);
        let before = before.or_else(|| of_kind.clone().nth(place(i, config)));
        ConfigReference {
            group: config.kind.group.clone(),
            resource: config.kind.resource.clone(),
            namespace: config.key.namespace.clone(),
            name: config.key.name.clone(),
            last_observed_generation: generation(config),
            desired_config: Some(spec_hash(config)),
            last_applied_config: before.and_then(|r| r.last_applied_config.clone()),
            ..ConfigReference::default()
        }
    };
    configs.iter().enumerate().map(reference).collect()
}

/// Returns the default configurations for the add-on's status.
pub fn default_references(configs: &[Config]) -> Vec<DefaultConfigReference> {
    let reference = |config: &Config| DefaultConfigReference {
        group: config.kind.group.clone(),
        resource: config.kind.resource.clone(),
        desired_config: Some(spec_hash(config)),
        ..DefaultConfigReference::default()
    };
    configs.iter().map(reference).collect()
}

/// Returns the configurations of a placement for the add-on's status. Once every cluster runs them, they become
/// the configurations to return to.
///
/// The last good configurations stay recorded, by position within a kind. OCM forgets all of them when one name
/// changes. See docs/hazards.md#renamed-config-forgets.
pub fn install_references(
    configs: &[Config],
    before: &[InstallConfigReference],
    everywhere: bool,
) -> Vec<InstallConfigReference> {
    let place =
        |i: usize, config: &Config| configs.iter().take(i).filter(|other| other.kind == config.kind).count();
    let reference = |(i, config): (usize, &Config)| {
        let mut of_kind =
            before.iter().filter(|r| r.group == config.kind.group && r.resource == config.kind.resource);
        let before = of_kind.nth(place(i, config));
        let desired = Some(spec_hash(config));
        let or_desired = |old: Option<ConfigSpecHash>| if everywhere { desired.clone() } else { old };
        InstallConfigReference {
            group: config.kind.group.clone(),
            resource: config.kind.resource.clone(),
            last_applied_config: or_desired(before.and_then(|r| r.last_applied_config.clone())),
            last_known_good_config: or_desired(before.and_then(|r| r.last_known_good_config.clone())),
            desired_config: desired,
            ..InstallConfigReference::default()
        }
    };
    configs.iter().enumerate().map(reference).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_hub_manages_an_addon_unless_its_annotation_says_otherwise() {
        for (annotation, expected) in
            [(None, true), (Some("addon-manager"), true), (Some("self"), false), (Some(""), false)]
        {
            let annotations = annotation.map(|value| json!({ADDON_LIFECYCLE_ANNOTATION: value}));
            let cma = json!({"metadata": {"name": "a", "annotations": annotations}, "spec": {}});
            let cma: ClusterManagementAddOn = serde_json::from_value(cma).unwrap();
            assert_eq!(is_managed(&cma), expected, "{annotation:?}");
        }
    }
}
