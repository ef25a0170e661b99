//! The binding controller: reports whether the set of a ManagedClusterSetBinding exists.

use jiff::Timestamp;

use api::cluster::v1beta2::{ManagedClusterSet, ManagedClusterSetBinding};
use api::condition::ConditionStatus::{False, True};
use api::condition::{Observation, set_condition};
use api::names::cluster_conditions::BOUND;
use object::Key;
use reconcile::{Controller, Plan, Query, Read, StatusWrite, View, Watches};

/// Sets the condition `Bound`. Placements do not read it; they read the set.
pub(crate) struct ClusterSetBindingController;

impl Controller for ClusterSetBindingController {
    const NAME: &'static str = "clustersetbinding";
    type Primary = ManagedClusterSetBinding;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManagedClusterSet>(|change, view| match (&change.old, &change.new) {
            (Some(set), None) | (None, Some(set)) => bindings_of(set.metadata.name.as_deref(), view),
            (Some(_), Some(_)) | (None, None) => Vec::new(),
        });
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        let Some(binding) = view
            .get::<ManagedClusterSetBinding>(key)?
            .filter(|binding| binding.metadata.deletion_timestamp.is_none())
        else {
            return Ok(plan);
        };
        let not_found = || Observation::new(BOUND, False, "ClusterSetNotFound");
        let bound = match binding.cluster_set() {
            Some(set) => match view.get::<ManagedClusterSet>(&Key::cluster(set))? {
                Some(_) => Observation::new(BOUND, True, "ClusterSetBound"),
                None => not_found(),
            },
            None => not_found().message(
                "The ManagedClusterSetBinding must have the same name as the target ManagedClusterSet",
            ),
        };
        let mut new = ManagedClusterSetBinding::clone(&binding);
        if set_condition(&mut new.status.get_or_insert_default().conditions, bound, now) {
            plan.status = StatusWrite::between(binding.as_ref(), &new);
        }
        Ok(plan)
    }
}

fn bindings_of(set: Option<&str>, view: &impl View) -> Vec<Key> {
    let bindings = view.readable::<ManagedClusterSetBinding>(Query::ALL);
    bindings
        .iter()
        .filter(|binding| binding.cluster_set() == set)
        .map(|binding| Key::of(&**binding))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use reconcile::{Caches, Site};

    fn bound(name: &str, sets: &[&str], status: serde_json::Value) -> Option<String> {
        let mut caches = Caches::default();
        let set = |name: &&str| {
            serde_json::from_value(json!({"metadata": {"name": name, "resourceVersion": "1"}, "spec": {}}))
                .unwrap()
        };
        caches.replace::<ManagedClusterSet>(Site::Hub, sets.iter().map(set).collect(), "1");
        let binding = json!({"metadata": {"namespace": "ns", "name": name, "resourceVersion": "1"}, "spec": {"clusterSet": "a"}, "status": status});
        caches.replace::<ManagedClusterSetBinding>(
            Site::Hub,
            vec![serde_json::from_value(binding).unwrap()],
            "1",
        );
        let plan =
            ClusterSetBindingController::plan(&Key::namespaced("ns", name), &caches, Timestamp::UNIX_EPOCH)
                .unwrap();
        let patch = serde_json::to_value(plan.status?.action()).unwrap();
        let condition = &patch["patch"]["status"]["conditions"][0];
        Some(
            format!(
                "{} {} {} [{}]",
                condition["type"], condition["status"], condition["reason"], condition["message"]
            )
            .replace('"', ""),
        )
    }

    #[test]
    fn a_binding_says_whether_its_set_exists_and_says_it_once() {
        assert_eq!(bound("a", &["a", "b"], json!({})).unwrap(), "Bound True ClusterSetBound []");
        assert_eq!(bound("a", &["b"], json!({})).unwrap(), "Bound False ClusterSetNotFound []");
        let status = json!({"conditions": [{
            "type": "Bound", "status": "True", "reason": "ClusterSetBound", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]});
        assert_eq!(bound("a", &["a"], status.clone()), None);
        assert_eq!(bound("a", &[], status).unwrap(), "Bound False ClusterSetNotFound []");
    }

    #[test]
    fn a_binding_that_is_not_named_after_its_set_binds_nothing() {
        let message = "The ManagedClusterSetBinding must have the same name as the target ManagedClusterSet";
        let expected = format!("Bound False ClusterSetNotFound [{message}]");
        assert_eq!(bound("b", &["a", "b"], json!({})).unwrap(), expected);
    }
}
