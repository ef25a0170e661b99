//! The kinds of configurations whose content a plan reads.

use api::names::ADDON_GROUP;
use engine::addon::config::ConfigKind;
use engine::addon::config_refs;
use object::{Gvk, Key, Object, ObjectRef};
use reconcile::{Change, Plan, Read, View};

/// Makes a plan that reads the content of configurations, if its input has add-ons with templates.
///
/// # Errors
/// Fails if the plan cannot be made, for example while it waits for the first list of a kind.
pub(in crate::hub) fn observing(
    has_template: bool,
    view: &impl View,
    plan: impl FnOnce() -> Read<Plan>,
) -> Read<Plan> {
    let observe = if has_template { config_gvks() } else { Vec::new() };
    match plan() {
        Ok(plan) => Ok(Plan { observe, ..plan }),
        Err(error) => {
            // The plan has requested the first kind that is not listed, and that list wakes the key. Request the
            // other kinds too, so that they are listed at the same time.
            for gvk in observe {
                let _ = view.observed(&ObjectRef { gvk, key: Key::default() });
            }
            Err(error)
        }
    }
}

/// Returns true if the content of a configuration changed.
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

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::json;

    use super::*;
    use crate::hub::addon_config::AddOnConfigController;
    use crate::hub::tests::memory_hub::MemoryHub;
    use crate::hub::tests::work::hub_with;
    use reconcile::{Command, Dispatcher, ReadErrorReason, Register as _};

    /// Advances ten minutes, during which the hub lists no configurations. Returns the read errors of the
    /// reconciliations, and adds the watches of configurations to `watches`.
    fn ten_minutes(hub: &mut MemoryHub, watches: &mut Vec<Command>) -> Vec<Option<ReadErrorReason>> {
        let mut ended = Vec::new();
        for _ in 0..600 {
            hub.now += SignedDuration::from_secs(1);
            for command in hub.dispatcher.due(hub.now) {
                match command {
                    Command::Watch(kind) if config_gvks().contains(&kind.gvk) => {
                        watches.push(Command::Watch(kind));
                    }
                    Command::Reconciled(result) => ended.push(result.read_error.map(|error| error.reason)),
                    other => {
                        hub.execute(other);
                    }
                }
            }
        }
        ended
    }

    #[test]
    fn a_rollout_is_a_read_error_once_and_continues_after_its_configurations_are_listed() {
        let config =
            json!({"group": ADDON_GROUP, "resource": config_refs::TEMPLATES, "defaultConfig": {"name": "t"}});
        let addon = json!({
            "apiVersion": format!("{ADDON_GROUP}/v1alpha1"), "kind": "ClusterManagementAddOn",
            "metadata": {"name": "a", "uid": "a"}, "spec": {"supportedConfigs": [config]},
        });
        let mut hub = hub_with(Dispatcher::add::<AddOnConfigController>, vec![addon]);
        let mut watches = Vec::new();
        assert_eq!(ten_minutes(&mut hub, &mut watches), [Some(ReadErrorReason::NotListed)]);
        assert_eq!(watches.len(), 2, "both kinds are asked for together");
        for watch in watches.drain(..) {
            hub.execute(watch);
        }
        let ended = ten_minutes(&mut hub, &mut watches);
        assert!(!ended.is_empty() && ended.iter().all(Option::is_none), "{ended:?}");
    }
}
