//! Keeps the annotations of an add-on on a cluster in sync with its cluster's annotations.
//!
//! Only annotations that were copied from the cluster are changed or removed. OCM makes the add-on's annotations
//! equal to the cluster's, and so deletes annotations that people set. See docs/hazards.md#annotations-of-people.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::addon_creation::{annotations_of_addons, is_by_placements, record_of};
use crate::addon_reads;
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::names::COPIED_ANNOTATIONS_ANNOTATION;
use object::{Key, Metadata as _};
use reconcile::{Action, Change, Controller, Plan, Query, Read, View, Watches};

pub(crate) struct AddOnAnnotationController;

impl Controller for AddOnAnnotationController {
    const NAME: &'static str = "addon-annotation";
    type Primary = ManagedClusterAddOn;

    fn concerns(change: &Change<ManagedClusterAddOn>) -> bool {
        change.differs_in(|addon| (&addon.metadata.annotations, addon.is_terminating()))
    }

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManagedCluster>(|change, view| {
            let cluster = change.latest().filter(|_| change.differs_in(annotations_of_addons));
            let addons =
                |cluster: &ManagedCluster| view.keys::<ManagedClusterAddOn>(Query::namespace(cluster.name()));
            cluster.map(addons).unwrap_or_default()
        });
        watches.on::<ClusterManagementAddOn>(|change, view| {
            let cma = change.latest().filter(|_| change.differs_in(is_by_placements));
            cma.map(|cma| addon_reads::keys_of_clusters(cma.name(), view)).unwrap_or_default()
        });
    }

    fn plan(key: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        let Some(addon) = view.get::<ManagedClusterAddOn>(key)? else { return Ok(plan) };
        let Some(cma) = view.get::<ClusterManagementAddOn>(&Key::cluster(&key.name))? else {
            return Ok(plan);
        };
        let Some(cluster) = view.get::<ManagedCluster>(&Key::cluster(&key.namespace))? else {
            return Ok(plan);
        };
        if addon.is_terminating() || cluster.is_terminating() || !is_by_placements(&cma) {
            return Ok(plan);
        }
        let annotations = difference(&addon, &cluster);
        if !annotations.is_empty() {
            let patch = Map::from_iter([("metadata".to_owned(), json!({"annotations": annotations}))]);
            plan.step([Action::patch(addon.as_ref(), patch)]);
        }
        Ok(plan)
    }
}

/// Returns the annotations of an add-on to set, and as null those to remove.
///
/// An annotation is a copy as long as it has the copied value. An annotation that a person changed or removed is
/// left alone until the cluster no longer has it. Without a record, as on OCM's add-ons, annotations that equal
/// the cluster's count as copies.
fn difference(addon: &ManagedClusterAddOn, cluster: &ManagedCluster) -> Map<String, Value> {
    let wanted = annotations_of_addons(cluster);
    let recorded = addon.annotation(COPIED_ANNOTATIONS_ANNOTATION);
    let equal = || wanted.clone().into_iter().filter(|(name, value)| addon.annotation(name) == Some(value));
    let before: BTreeMap<String, String> =
        recorded.map_or_else(|| equal().collect(), |record| serde_json::from_str(record).unwrap_or_default());
    let is_copy = |name: &str| addon.annotation(name) == before.get(name).map(String::as_str);
    let gone = before.keys().filter(|name| !wanted.contains_key(*name) && is_copy(name));
    let mut difference: Map<String, Value> = gone.map(|name| (name.clone(), Value::Null)).collect();
    let mut copied = BTreeMap::new();
    for (name, value) in wanted {
        if is_copy(&name) {
            if addon.annotation(&name) != Some(&value) {
                difference.insert(name.clone(), json!(value));
            }
            copied.insert(name, value);
        } else if let Some(before) = before.get(&name) {
            copied.insert(name, before.clone());
        }
    }
    let record = record_of(&copied);
    if recorded != record.as_deref() {
        difference.insert(COPIED_ANNOTATIONS_ANNOTATION.into(), json!(record));
    }
    difference
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::names::ADDON_ANNOTATION_PREFIX;

    /// Checks the annotations of an add-on (by their last letters) after a change of its cluster's annotations.
    fn check(recorded: Value, cluster: Value, want: Value) {
        let named = |values: &Value| -> Map<String, Value> {
            let prefixed = |name: &String| match name.as_str() {
                "record" => COPIED_ANNOTATIONS_ANNOTATION.to_owned(),
                name => format!("{ADDON_ANNOTATION_PREFIX}{name}"),
            };
            values.as_object().unwrap().iter().map(|(name, value)| (prefixed(name), value.clone())).collect()
        };
        let record = |mut values: Value| {
            if let Some(record) = values.get_mut("record").filter(|record| record.is_object()) {
                *record = json!(json!(named(record)).to_string());
            }
            named(&values)
        };
        let object = |annotations| json!({"metadata": {"name": "c", "annotations": annotations}, "spec": {}});
        let addon: ManagedClusterAddOn =
            serde_json::from_value(object(json!(record(recorded.clone())))).unwrap();
        let cluster: ManagedCluster = serde_json::from_value(object(json!(record(cluster)))).unwrap();
        let difference = difference(&addon, &cluster);
        assert_eq!(difference, record(want), "held {recorded}");
    }

    #[test]
    fn only_annotations_that_were_copied_from_the_cluster_follow_it() {
        check(json!({}), json!({}), json!({}));
        check(json!({}), json!({"x": "1"}), json!({"x": "1", "record": {"x": "1"}}));
        let copied = json!({"x": "1", "record": {"x": "1"}});
        check(copied.clone(), json!({"x": "1"}), json!({}));
        check(copied.clone(), json!({"x": "2"}), json!({"x": "2", "record": {"x": "2"}}));
        check(copied, json!({}), json!({"x": null, "record": null}));
        let changed = json!({"x": "p", "y": "1", "record": {"x": "1", "y": "1"}});
        check(changed.clone(), json!({"x": "2", "y": "1"}), json!({}));
        check(changed, json!({}), json!({"y": null, "record": null}));
        check(json!({"x": "p"}), json!({"x": "1"}), json!({}));
        let removed = json!({"record": {"x": "1"}});
        check(removed.clone(), json!({"x": "2"}), json!({}));
        check(removed, json!({}), json!({"record": null}));
    }

    #[test]
    fn equal_annotations_of_an_addon_that_ocm_made_are_copies() {
        check(json!({"x": "1", "p": ""}), json!({"x": "1"}), json!({"record": {"x": "1"}}));
        check(json!({"record": "no record", "x": "1"}), json!({"x": "1"}), json!({"record": null}));
    }
}
