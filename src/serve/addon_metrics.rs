//! The metrics of add-ons except rollouts: the number of clusters where they work, and where they stay until a
//! removal is approved.

use std::sync::Arc;

use api::addon::v1alpha1::ManagedClusterAddOn;
use api::condition::{ConditionStatus, Conditions as _};
use api::gitops::v1alpha1::RolloutPolicy;
use api::names::addon_conditions::AVAILABLE;
use object::Metadata as _;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByAvailability {
    addon: String,
    available: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByAddOn {
    addon: String,
}

/// Registers the number of clusters on which each add-on is available. Add-ons that are being removed do not
/// count.
pub(super) fn register(registry: &mut Registry, addons: &[Arc<ManagedClusterAddOn>]) {
    let clusters = Family::<ByAvailability, Gauge>::default();
    for addon in addons.iter().filter(|addon| !addon.is_terminating()) {
        let available = match addon.condition(AVAILABLE).map(|condition| &condition.status) {
            Some(ConditionStatus::True) => "true",
            Some(ConditionStatus::False) => "false",
            Some(ConditionStatus::Unknown | ConditionStatus::Other(_)) | None => "unknown",
        };
        clusters.get_or_create(&ByAvailability { addon: addon.name().to_owned(), available }).inc();
    }
    let help = "Clusters with an add-on, by the availability of the add-on";
    registry.register("addon_clusters", help, clusters);
}

/// Registers the number of clusters that wait for the removal of each add-on, according to the policies'
/// status.
pub(super) fn register_removals(registry: &mut Registry, policies: &[Arc<RolloutPolicy>]) {
    let held = Family::<ByAddOn, Gauge>::default();
    let statuses = policies.iter().filter_map(|policy| policy.status.as_ref());
    for removal in statuses.flat_map(|status| &status.removals) {
        held.get_or_create(&ByAddOn { addon: removal.add_on.clone() }).set(removal.held.into());
    }
    let help = "Clusters on which the removal of an add-on waits for an approval or for the budget";
    registry.register("addon_removals_held", help, held);
}
