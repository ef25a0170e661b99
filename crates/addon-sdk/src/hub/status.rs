//! The status that the manager of an add-on writes: registration, works and health.
//!
//! The hub judges the rollout (`Configured`, `Progressing`), so the manager never writes these conditions.

use jiff::Timestamp;

use super::deployment::AddOnDeployment;
use crate::AddOn;
use crate::addon::HealthProber;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::condition::ConditionStatus::{False, True, Unknown};
use api::condition::{Conditions as _, Observation, set_condition};
use api::names::addon_conditions::{AVAILABLE, DEGRADED, PROGRESSING};
use api::names::cluster_conditions;
use api::work::v1::ManifestWork;
use engine::addon::health;
use engine::addon::hosting::{Host, Place};
use engine::addon::works_status::WorksStatus;
use engine::addon::{config_refs, degraded, progress};
use object::Metadata as _;

impl<A: AddOn> AddOnDeployment<A> {
    /// Sets the conditions and the related objects. `empty` lists the places that need no works, or has the reason
    /// that the objects could not be built.
    pub(super) fn report(
        &self,
        new: &mut ManagedClusterAddOn,
        empty: Result<&[Place], &str>,
        now: Timestamp,
    ) {
        let works = self.live.works();
        let is_registered = new.status.as_ref().is_some_and(|status| !status.supported_configs.is_empty());
        let degraded = self.degraded(&works, empty);
        let status = new.status.get_or_insert_default();
        status.related_objects = degraded::related_objects(&works);
        let conditions = &mut status.conditions;
        if let Some(degraded) = degraded {
            set_condition(conditions, degraded, now);
        }
        self.live.host.report(conditions, now);
        health::report_deployment(conditions, &self.live, is_registered, empty, now);
        // While the cluster is unknown, the hub writes the availability of its add-ons.
        if is_unknown(&self.cluster) {
            return;
        }
        if let Some(available) = self.availability(&works) {
            set_condition(conditions, available, now);
        }
    }

    /// Returns the `Degraded` condition, once the hub has judged the rollout on the cluster.
    fn degraded(&self, works: &[&ManifestWork], empty: Result<&[Place], &str>) -> Option<Observation> {
        let addon = &self.live.addon;
        let ends = [progress::COMPLETED, progress::FAILED, progress::UNSUPPORTED];
        let progressing = addon.condition(PROGRESSING);
        let is_judged = progressing.is_some_and(|progressing| ends.contains(&progressing.reason.as_str()));
        // A `Degraded` condition from an earlier error may clear without a rollout.
        if empty.is_ok() && !is_judged && !addon.holds(DEGRADED) {
            return None;
        }
        let configs = config_refs::assigned(addon).unwrap_or_default();
        let status = match (health::works_status(works, &configs, true), &self.options.health) {
            (WorksStatus::NoWorks, _) if empty == Ok(Place::ALL.as_slice()) => WorksStatus::Done,
            (WorksStatus::Done, HealthProber::Probe(probe)) => {
                probe(works).map_or_else(WorksStatus::NotHealthy, |()| WorksStatus::Done)
            }
            (status, _) => status,
        };
        degraded::condition(&self.live.host, empty.err(), &status)
    }

    /// Returns the availability of the add-on; `None` if its agent reports it.
    fn availability(&self, works: &[&ManifestWork]) -> Option<Observation> {
        let unknown =
            |reason: &str, message: &str| Observation::new(AVAILABLE, Unknown, reason).message(message);
        let available = match &self.live.host {
            Host::Invalid(message) => unknown("HostingClusterInvalid", message),
            Host::Valid(host) if is_unknown(host) => {
                let message = format!("hosting cluster {} is unreachable", host.name());
                unknown("HostingClusterUnknown", &message)
            }
            Host::None | Host::Valid(_) => health::availability(A::NAME, works),
        };
        match self.options.health {
            HealthProber::Lease | HealthProber::AgentProbe(_) => None,
            HealthProber::Probe(probe) if available.status == True => {
                let judged = probe(works).map_err(|message| {
                    Observation::new(AVAILABLE, False, "ProbeUnavailable")
                        .message(format!("Probe addon unavailable with err {message}"))
                });
                Some(judged.map_or_else(|unavailable| unavailable, |()| available))
            }
            HealthProber::Workloads | HealthProber::Probe(_) => Some(available),
        }
    }
}

/// Returns true if the hub does not hear from a cluster.
fn is_unknown(cluster: &ManagedCluster) -> bool {
    let available = cluster.condition(cluster_conditions::AVAILABLE);
    available.is_some_and(|available| available.status == Unknown)
}

#[cfg(test)]
#[path = "tests/status.rs"]
mod tests;
