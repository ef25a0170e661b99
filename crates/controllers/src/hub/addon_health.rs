//! Sets the availability of every add-on on an unknown cluster to Unknown, including add-ons with their own
//! manager.
//!
//! When the cluster responds again, the add-on's manager or the cluster's agent updates it.

use jiff::Timestamp;

use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::condition::ConditionStatus::Unknown;
use api::condition::{Conditions as _, Observation, set_condition};
use api::names::{addon_conditions, cluster_conditions};
use object::{Key, Metadata as _};
use reconcile::{Change, Controller, Plan, Query, Read, StatusWrite, View, Watches};

pub(crate) struct AddOnHealthController;

impl Controller for AddOnHealthController {
    const NAME: &'static str = "addon-health";
    type Primary = ManagedClusterAddOn;

    fn concerns(change: &Change<ManagedClusterAddOn>) -> bool {
        change.differs_in(|addon| addon.condition(addon_conditions::AVAILABLE))
    }

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManagedCluster>(|change, view| {
            let cluster = change.latest().filter(|_| change.differs_in(unknown_availability));
            let addons =
                |cluster: &ManagedCluster| view.keys::<ManagedClusterAddOn>(Query::namespace(cluster.name()));
            cluster.map(addons).unwrap_or_default()
        });
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        let Some(addon) = view.get::<ManagedClusterAddOn>(key)? else { return Ok(plan) };
        let cluster = view.get::<ManagedCluster>(&Key::cluster(&key.namespace))?;
        if let Some((reason, message)) = cluster.as_deref().and_then(unknown_availability) {
            let mut new = ManagedClusterAddOn::clone(&addon);
            let unknown = Observation::new(addon_conditions::AVAILABLE, Unknown, &reason).message(message);
            set_condition(&mut new.status.get_or_insert_default().conditions, unknown, now);
            plan.status = StatusWrite::between(addon.as_ref(), &new);
        }
        Ok(plan)
    }
}

/// Returns the reason and message of a cluster whose availability is unknown.
fn unknown_availability(cluster: &ManagedCluster) -> Option<(String, String)> {
    let available = cluster.condition(cluster_conditions::AVAILABLE)?;
    (available.status == Unknown).then(|| (available.reason.clone(), available.message.clone()))
}
