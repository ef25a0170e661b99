//! The metric of add-ons after their rollouts: on how many clusters they work.

use std::sync::Arc;

use api::addon::v1alpha1::ManagedClusterAddOn;
use api::condition::{ConditionStatus, Conditions as _};
use api::names::addon_conditions::AVAILABLE;
use object::Metadata as _;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByAddOn {
    addon: String,
    available: &'static str,
}

/// Registers on how many clusters each add-on is available. Those that leave their clusters do not count.
pub(super) fn register(registry: &mut Registry, addons: &[Arc<ManagedClusterAddOn>]) {
    let clusters = Family::<ByAddOn, Gauge>::default();
    for addon in addons.iter().filter(|addon| !addon.is_terminating()) {
        let available = match addon.condition(AVAILABLE).map(|condition| &condition.status) {
            Some(ConditionStatus::True) => "true",
            Some(ConditionStatus::False) => "false",
            Some(ConditionStatus::Unknown | ConditionStatus::Other(_)) | None => "unknown",
        };
        clusters.get_or_create(&ByAddOn { addon: addon.name().to_owned(), available }).inc();
    }
    let help = "Clusters that have an add-on, by whether it is available there";
    registry.register("addon_clusters", help, clusters);
}
