//! The values of an add-on on one cluster, from its AddOnDeploymentConfig and the add-on's annotation.

use serde_json::Value;

use api::addon::v1alpha1::{AddOnDeploymentConfig, AddOnDeploymentConfigSpec, CustomizedVariable};
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::condition::Conditions as _;
use api::names::addon_conditions::CONFIGURED;
use api::names::{ADDON_GROUP, ADDON_VALUES_ANNOTATION};
use engine::addon::config::{Config, ConfigKind};
use engine::addon::{config_refs, spec_hash};
use object::{Gvk, Key, Metadata as _, Object, ObjectRef};
use reconcile::{Change, Plan, Read, View};

/// The configuration of an add-on on one cluster.
#[derive(Debug, PartialEq)]
pub(crate) enum Assigned {
    /// The rollout has not assigned a configuration yet, or the hub no longer has the assigned content. The
    /// cluster keeps what it runs.
    Waits,
    /// The assigned configuration; empty if the add-on has none.
    Content(Box<AddOnDeploymentConfigSpec>),
}

/// Returns the kind of the configurations.
pub(crate) fn config_gvk() -> Gvk {
    let kind = ConfigKind { group: ADDON_GROUP.into(), resource: config_refs::DEPLOYMENT_CONFIGS.into() };
    config_refs::config_gvk(&kind).unwrap_or_default()
}

/// Returns true if a configuration changed.
pub(crate) fn is_config(change: &Change<Object>) -> bool {
    change.sides().any(|object| object.gvk() == config_gvk())
}

/// Makes a plan once the configurations have been read, which wakes the key.
///
/// # Errors
/// Fails if the configurations have not been read, or if the plan cannot be made.
pub(crate) fn when_read(view: &impl View, plan: impl FnOnce() -> Read<Plan>) -> Read<Plan> {
    view.observed(&ObjectRef { gvk: config_gvk(), key: Key::default() })?;
    plan()
}

/// Returns true if the spec of the cluster's add-on names a configuration.
pub(crate) fn is_own(addon: &ManagedClusterAddOn, config: &Config) -> bool {
    config_refs::named(&addon.spec.configs, &[]).iter().any(|own| own.is_same_object(config))
}

/// Returns the configuration that the rollout assigned, if its content is the hub's current content: a cluster
/// never gets new content before its turn.
///
/// A configuration that this cluster's add-on names itself affects no other cluster, so its current content is
/// used. Without its definition, which may be deleted first, an add-on keeps its last assignment. An add-on that
/// is being deleted gets no other turn, so the current content of its configuration is used.
///
/// # Errors
/// Fails if the configurations have not been read.
pub(crate) fn assigned(
    cma: Option<&ClusterManagementAddOn>,
    addon: &ManagedClusterAddOn,
    view: &impl View,
) -> Read<Assigned> {
    let none = || {
        Assigned::Content(Box::new(AddOnDeploymentConfigSpec {
            agent_install_namespace: addon.spec.install_namespace.clone(),
            ..AddOnDeploymentConfigSpec::default()
        }))
    };
    let is_managed = cma.map_or_else(|| config_refs::assigned(addon).is_some(), config_refs::is_managed);
    let configs = if is_managed {
        let Some(configs) = config_refs::assigned(addon) else { return Ok(Assigned::Waits) };
        let is_configured = addon.condition(CONFIGURED).is_some_and(|configured| configured.is_true());
        if configs.is_empty() && !is_configured {
            return Ok(Assigned::Waits);
        }
        configs
    } else {
        config_refs::named(&addon.spec.configs, &[])
    };
    let Some(config) = configs.into_iter().find(config_refs::is_deployment_config) else { return Ok(none()) };
    let Some(reference) = config_refs::config_object(&config) else { return Ok(none()) };
    let Some(live) = view.observed(&reference)? else { return Ok(Assigned::Waits) };
    let is_fixed = !is_own(addon, &config) && !addon.is_terminating();
    if is_fixed && spec_hash::spec_hash(&live) != config.hash {
        return Ok(Assigned::Waits);
    }
    let typed = live.to_typed::<AddOnDeploymentConfig>();
    Ok(typed.map_or(Assigned::Waits, |config| Assigned::Content(Box::new(config.spec))))
}

/// Adds the values of the add-on's annotation, which override the configuration's values.
pub(crate) fn with_values(
    mut config: AddOnDeploymentConfigSpec,
    addon: &ManagedClusterAddOn,
) -> Result<AddOnDeploymentConfigSpec, String> {
    let Some(text) = addon.annotation(ADDON_VALUES_ANNOTATION) else { return Ok(config) };
    let wrong = |reason: String| {
        format!("the annotation {ADDON_VALUES_ANNOTATION} is not a JSON object with string values: {reason}")
    };
    let Value::Object(values) = serde_json::from_str(text).map_err(|e| wrong(e.to_string()))? else {
        return Err(wrong(format!("it is {text}")));
    };
    for (name, value) in values {
        let Value::String(value) = value else { return Err(wrong(format!("{name} is {value}"))) };
        config.customized_variables.retain(|variable| variable.name != name);
        config.customized_variables.push(CustomizedVariable { name, value, ..CustomizedVariable::default() });
    }
    Ok(config)
}

/// Returns the hash of a configuration; `None` if the hub does not have it, or if the library does not read its
/// kind.
///
/// # Errors
/// Fails if the configurations have not been read.
pub(crate) fn live_hash(config: &Config, view: &impl View) -> Read<Option<String>> {
    if !config_refs::is_deployment_config(config) {
        return Ok(None);
    }
    let Some(reference) = config_refs::config_object(config) else { return Ok(None) };
    let live = view.observed(&reference)?;
    Ok(live.map(|live| spec_hash::spec_hash(&live)))
}
