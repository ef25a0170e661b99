//! The cluster that hosts a part of an add-on.
//!
//! Works stay as they are while the hub cannot deploy to that cluster, so nothing is deleted because a
//! cluster is missing.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::deployment::Deployment;
use api::Condition;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::condition::ConditionStatus::{False, True};
use api::condition::{Observation, set_condition};
use api::names::addon_conditions::{HOSTING_CLUSTER_VALIDITY, HOSTING_MANIFEST_APPLIED};
use api::names::{
    ADDON_NAME_LABEL, ADDON_NAMESPACE_LABEL, ADDON_PRE_DELETE, HOSTING_CLEANUP_FINALIZER,
    HOSTING_PRE_DELETE_FINALIZER,
};
use api::work::v1::ManifestWork;
use engine::addon::hosting;
use object::{Key, Metadata as _};
use reconcile::{Action, Plan, Query, Read, View};

/// How long the deletion of an add-on waits for an agent to remove works. An agent may be away for ever.
pub(super) const WORKS_TIMEOUT: SignedDuration = SignedDuration::from_mins(10);

/// The finalizers of an add-on, which the hub removes when what they stand for is done.
pub(super) const FINALIZERS: [&str; 3] =
    [ADDON_PRE_DELETE, HOSTING_PRE_DELETE_FINALIZER, HOSTING_CLEANUP_FINALIZER];

/// The cluster that hosts an add-on.
pub(super) enum Host {
    /// The add-on runs on its own cluster alone.
    None,
    /// The hub can deploy to this cluster.
    Valid(Arc<ManagedCluster>),
    /// The hub cannot deploy to the cluster; the text says why.
    Invalid(String),
}

impl Host {
    pub(super) fn read(addon: &ManagedClusterAddOn, view: &impl View) -> Read<Self> {
        let Some(name) = hosting::hosting_cluster(addon) else { return Ok(Self::None) };
        let invalid = |why: &str| Self::Invalid(format!("hosting cluster {name} {why}"));
        let Some(cluster) = view.get::<ManagedCluster>(&Key::cluster(name))? else {
            return Ok(invalid("is not a managed cluster of the hub"));
        };
        Ok(if cluster.is_terminating() {
            invalid("is being deleted")
        } else if !cluster.spec.hub_accepts_client {
            invalid("is not accepted by the hub")
        } else {
            Self::Valid(cluster)
        })
    }

    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Valid(cluster) => Some(cluster.name()),
            Self::None | Self::Invalid(_) => None,
        }
    }
}

/// Returns the works of the part of an add-on that other clusters host or hosted.
pub(super) fn works(addon: &Key, view: &impl View) -> Read<Vec<Arc<ManifestWork>>> {
    let mut works = view.list::<ManifestWork>(Query::label(ADDON_NAMESPACE_LABEL, &addon.namespace))?;
    // A cluster may host its own add-on.
    let here = Query::label(ADDON_NAME_LABEL, &addon.name).within(&addon.namespace);
    works.extend(view.list::<ManifestWork>(here)?.into_iter().filter(|work| !has_namespace(work)));
    works.retain(|work| hosting::is_hosted(addon, work));
    Ok(works)
}

fn has_namespace(work: &Arc<ManifestWork>) -> bool {
    work.label(ADDON_NAMESPACE_LABEL).is_some()
}

/// Deletes the works that other clusters host, and removes the finalizers of the add-on when the works are
/// gone. `waits` says whether the add-on waits for that.
pub(super) fn clean(
    addon: &ManagedClusterAddOn,
    works: &[Arc<ManifestWork>],
    waits: bool,
    now: Timestamp,
) -> Plan {
    let mut plan = Plan::nothing();
    let living = works.iter().filter(|work| !work.is_terminating());
    plan.step(living.map(|work| Action::delete(work.as_ref())));
    match deadline(works, now).filter(|until| waits && *until > now) {
        Some(until) => plan.wake(until),
        None => plan.step(Action::remove_finalizers(addon, &FINALIZERS)),
    }
    plan
}

/// Returns until when the deletion of an add-on waits for the end of works; `None` if there are none.
pub(super) fn deadline(works: &[Arc<ManifestWork>], now: Timestamp) -> Option<Timestamp> {
    let deleted =
        |work: &Arc<ManifestWork>| work.metadata.deletion_timestamp.as_ref().map_or(now, |deleted| deleted.0);
    works.iter().map(deleted).max()?.checked_add(WORKS_TIMEOUT).ok()
}

impl Deployment {
    /// Reports the cluster that hosts the add-on, in OCM's words where it has some.
    pub(super) fn report_host(&self, conditions: &mut Vec<Condition>, now: Timestamp) {
        let observation = match &self.host {
            Host::None => {
                let of_host = [HOSTING_CLUSTER_VALIDITY, HOSTING_MANIFEST_APPLIED];
                conditions.retain(|condition| !of_host.contains(&condition.type_.as_str()));
                return;
            }
            Host::Valid(cluster) => Observation::new(HOSTING_CLUSTER_VALIDITY, True, "HostingClusterValid")
                .message(format!("hosting cluster {} is a managed cluster of the hub", cluster.name())),
            Host::Invalid(why) => {
                Observation::new(HOSTING_CLUSTER_VALIDITY, False, "HostingClusterInvalid").message(why)
            }
        };
        set_condition(conditions, observation, now);
    }
}
