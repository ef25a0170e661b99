//! Labels each cluster with its add-ons and their health, so that placements can select by them.
//!
//! The values are OCM's: `available`, `unhealthy` and `unreachable`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::condition::{ConditionStatus, Conditions as _};
use api::names::{ADDON_FEATURE_LABEL_PREFIX, addon_conditions, cluster_conditions};
use object::{Key, Metadata as _};
use reconcile::{Action, Controller, Plan, Query, Read, View, Watches};

/// A label name without its prefix has at most 63 characters, including `addon-`.
const MAX_NAME: usize = 63 - "addon-".len();

pub(crate) struct AddOnFeatureController;

impl Controller for AddOnFeatureController {
    const NAME: &'static str = "addon-feature";
    type Primary = ManagedCluster;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManagedClusterAddOn>(|change, _| {
            let fields = |addon: &ManagedClusterAddOn| (addon.is_terminating(), feature(addon));
            let addon = change.latest().filter(|_| change.differs_in(fields));
            addon.map(|addon| Key::cluster(addon.namespace())).into_iter().collect()
        });
    }

    fn plan(key: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        let Some(cluster) = view.get::<ManagedCluster>(key)? else { return Ok(plan) };
        if cluster.is_terminating() || cluster.condition(cluster_conditions::AVAILABLE).is_none() {
            return Ok(plan);
        }
        let addons = view.list::<ManagedClusterAddOn>(Query::namespace(&key.name))?;
        let living = addons.iter().filter(|addon| !addon.is_terminating() && addon.name().len() <= MAX_NAME);
        let labeled =
            living.map(|addon| (format!("{ADDON_FEATURE_LABEL_PREFIX}{}", addon.name()), feature(addon)));
        let wanted: BTreeMap<String, &str> = labeled.collect();
        let current = cluster.metadata.labels.clone().unwrap_or_default();
        let surplus = current
            .keys()
            .filter(|label| label.starts_with(ADDON_FEATURE_LABEL_PREFIX) && !wanted.contains_key(*label));
        let mut labels: Map<String, Value> = surplus.map(|label| (label.clone(), Value::Null)).collect();
        for (label, value) in &wanted {
            if current.get(label).is_none_or(|found| found != value) {
                labels.insert(label.clone(), json!(value));
            }
        }
        if !labels.is_empty() {
            let patch = Map::from_iter([("metadata".to_owned(), json!({"labels": labels}))]);
            plan.step([Action::patch(cluster.as_ref(), patch)]);
        }
        Ok(plan)
    }
}

/// Returns the health of an add-on as a label value.
fn feature(addon: &ManagedClusterAddOn) -> &'static str {
    match addon.condition(addon_conditions::AVAILABLE).map(|condition| &condition.status) {
        Some(ConditionStatus::True) => "available",
        Some(ConditionStatus::False) => "unhealthy",
        Some(ConditionStatus::Unknown | ConditionStatus::Other(_)) | None => "unreachable",
    }
}
