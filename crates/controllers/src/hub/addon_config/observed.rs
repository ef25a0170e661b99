//! The configurations whose content is read: the kinds that a plan observes.

use api::names::ADDON_GROUP;
use engine::addon::config::ConfigKind;
use engine::addon::config_refs;
use object::{Gvk, Key, Object, ObjectRef};
use reconcile::{Change, Plan, Read, View};

/// Makes a plan that reads the content of configurations, if its input has add-ons with templates.
pub(in crate::hub) fn observing(
    has_template: bool,
    view: &impl View,
    plan: impl FnOnce() -> Read<Plan>,
) -> Read<Plan> {
    let observe = if has_template { config_gvks() } else { Vec::new() };
    let is_read = |gvk: &Gvk| {
        let none = ObjectRef { gvk: gvk.clone(), key: Key::default() };
        view.observed(&none).is_ok()
    };
    match plan() {
        Ok(plan) => Ok(Plan { observe, ..plan }),
        // This plan asks for the kinds that are not observed yet; they wake the key when they are read.
        Err(_) if !observe.iter().all(is_read) => Ok(Plan { observe, ..Plan::nothing() }),
        Err(unread) => Err(unread),
    }
}

/// Returns whether the content of a configuration changed.
pub(in crate::hub) fn is_config(change: &Change<Object>) -> bool {
    change.sides().any(|object| config_gvks().contains(&object.gvk()))
}

/// Returns the kinds of configurations whose content is read.
fn config_gvks() -> Vec<Gvk> {
    let kind = |resource: &str| ConfigKind { group: ADDON_GROUP.into(), resource: resource.into() };
    [config_refs::TEMPLATES, config_refs::DEPLOYMENT_CONFIGS]
        .into_iter()
        .filter_map(|resource| config_refs::config_gvk(&kind(resource)))
        .collect()
}
