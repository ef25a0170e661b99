//! The conditions that the manager of an add-on writes: its registration, its works and its health.
//!
//! The hub judges the rollout (`Configured`, `Progressing`), so the manager never writes these.

use jiff::Timestamp;

use super::deployment::AddOnDeployment;
use crate::AddOn;
use crate::addon::HealthProber;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::condition::ConditionStatus::{False, True, Unknown};
use api::condition::{Conditions as _, Observation, set_condition};
use api::names::addon_conditions::{AVAILABLE, MANIFEST_APPLIED, REGISTRATION_APPLIED};
use api::names::cluster_conditions;
use api::work::v1::ManifestWork;
use engine::addon::health;
use engine::addon::hosting::{Host, Place};
use object::Metadata as _;
use reconcile::{Action, Executed, StatusWrite};

impl<A: AddOn> AddOnDeployment<A> {
    /// Fills in the conditions. `made` says which parts of the add-on have no objects at all, or why they
    /// could not be made.
    pub(super) fn report(
        &self,
        new: &mut ManagedClusterAddOn,
        made: Result<Vec<Place>, String>,
        now: Timestamp,
    ) {
        let places = [Some(Place::Managed), self.live.host.name().map(|_| Place::Hosting)];
        let places: Vec<Place> = places.into_iter().flatten().collect();
        let works: Vec<&ManifestWork> = places.iter().flat_map(|place| self.live.works_at(*place)).collect();
        let is_registered = new.status.as_ref().is_some_and(|status| !status.supported_configs.is_empty());
        let conditions = &mut new.status.get_or_insert_default().conditions;
        if is_registered {
            let registered = Observation::new(REGISTRATION_APPLIED, True, "SetPermissionApplied")
                .message("Registration of the addon agent is configured");
            set_condition(conditions, registered, now);
        }
        self.live.host.report(conditions, now);
        match made {
            Err(why) => {
                let failed = Observation::new(MANIFEST_APPLIED, False, "ManifestWorkApplyFailed");
                set_condition(conditions, failed.message(why), now);
            }
            Ok(empty) => {
                for place in places {
                    let works = self.live.works_at(place);
                    let is_known = !works.is_empty() || empty.contains(&place);
                    if let Some(applied) = health::manifest_applied(place, &works).filter(|_| is_known) {
                        set_condition(conditions, applied, now);
                    }
                }
            }
        }
        // While the cluster is unknown, the hub writes the availability of its add-ons.
        if is_unknown(&self.cluster) {
            return;
        }
        if let Some(available) = self.availability(&works) {
            set_condition(conditions, available, now);
        }
    }

    /// Returns the health of the add-on; `None` if its agent reports it.
    fn availability(&self, works: &[&ManifestWork]) -> Option<Observation> {
        let unknown = |reason: &str, why: &str| Observation::new(AVAILABLE, Unknown, reason).message(why);
        let available = match &self.live.host {
            Host::Invalid(why) => unknown("HostingClusterInvalid", why),
            Host::Valid(host) if is_unknown(host) => {
                let why = format!("hosting cluster {} does not answer", host.name());
                unknown("HostingClusterUnknown", &why)
            }
            Host::None | Host::Valid(_) => health::availability(A::NAME, works),
        };
        match self.options.health {
            HealthProber::Lease | HealthProber::AgentProbe(_) => None,
            HealthProber::Probe(probe) if available.status == True => {
                let judged = probe(works).map_err(|why| {
                    Observation::new(AVAILABLE, False, "ProbeUnavailable")
                        .message(format!("Probe addon unavailable with err {why}"))
                });
                Some(judged.map_or_else(|unavailable| unavailable, |()| available))
            }
            HealthProber::Workloads | HealthProber::Probe(_) => Some(available),
        }
    }
}

/// Returns whether a cluster does not answer.
fn is_unknown(cluster: &ManagedCluster) -> bool {
    let available = cluster.condition(cluster_conditions::AVAILABLE);
    available.is_some_and(|available| available.status == Unknown)
}

/// Says that the hub refuses the permissions of an agent: the manager can give only those that it has itself.
pub(super) fn refused_permission(
    addon: &ManagedClusterAddOn,
    done: &Executed,
    now: Timestamp,
) -> Option<StatusWrite> {
    let is_permission = |action: &Action| {
        action.gvk().is_some_and(|gvk| ["Role", "RoleBinding"].contains(&gvk.kind.as_str()))
    };
    let (_, failure) = done.failures().find(|(action, _)| is_permission(action))?;
    let refused = Observation::new(REGISTRATION_APPLIED, False, "SetPermissionFailed")
        .message(format!("Failed to set permission for hub agent: {failure}"));
    let mut new = addon.clone();
    set_condition(&mut new.status.get_or_insert_default().conditions, refused, now);
    StatusWrite::between(addon, &new)
}
