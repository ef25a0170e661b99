//! The conditions that the manager of an add-on writes: its registration, its works and its health.
//!
//! The hub judges the rollout (`Configured`, `Progressing`), so the manager never writes these.

use std::sync::Arc;

use jiff::Timestamp;

use super::deploy::Deployment;
use crate::AddOn;
use crate::addon::Health;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::condition::ConditionStatus::{False, True, Unknown};
use api::condition::{Conditions as _, Observation, set_condition};
use api::names::addon_conditions::{AVAILABLE, MANIFEST_APPLIED, REGISTRATION_APPLIED};
use api::names::cluster_conditions;
use api::work::v1::ManifestWork;
use engine::addon::health;
use engine::addon::hosting::Place;
use reconcile::{Action, Executed, StatusWrite};

impl<A: AddOn> Deployment<A> {
    /// Fills in the conditions. `made` says whether the add-on has no objects at all, or why they could not
    /// be made.
    pub(super) fn report(&self, new: &mut ManagedClusterAddOn, made: Result<bool, String>, now: Timestamp) {
        let works: Vec<&ManifestWork> = self.works.iter().map(Arc::as_ref).collect();
        let is_registered = new.status.as_ref().is_some_and(|status| !status.supported_configs.is_empty());
        let conditions = &mut new.status.get_or_insert_default().conditions;
        if is_registered {
            let registered = Observation::new(REGISTRATION_APPLIED, True, "SetPermissionApplied")
                .message("Registration of the addon agent is configured");
            set_condition(conditions, registered, now);
        }
        let applied = match made {
            Err(why) => {
                Some(Observation::new(MANIFEST_APPLIED, False, "ManifestWorkApplyFailed").message(why))
            }
            Ok(is_empty) if works.is_empty() && !is_empty => None,
            Ok(_) => health::manifest_applied(Place::Managed, &works),
        };
        if let Some(applied) = applied {
            set_condition(conditions, applied, now);
        }
        // While the cluster is unknown, the hub writes the availability of its add-ons.
        let cluster = self.cluster.condition(cluster_conditions::AVAILABLE);
        if cluster.is_some_and(|cluster| cluster.status == Unknown) {
            return;
        }
        if let Some(available) = self.availability(&works) {
            set_condition(conditions, available, now);
        }
    }

    /// Returns the health of the add-on; `None` if its agent reports it.
    fn availability(&self, works: &[&ManifestWork]) -> Option<Observation> {
        let available = health::availability(A::NAME, works);
        match self.options.health {
            Health::Lease => None,
            Health::Probe(probe) if available.status == True => {
                let judged = probe(works).map_err(|why| {
                    Observation::new(AVAILABLE, False, "ProbeUnavailable")
                        .message(format!("Probe addon unavailable with err {why}"))
                });
                Some(judged.map_or_else(|unavailable| unavailable, |()| available))
            }
            Health::Workloads | Health::Probe(_) => Some(available),
        }
    }
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
