//! Deploys an add-on to its cluster and reports its health.
//!
//! A cluster that the hub does not accept gets no new works, and its add-ons lose their permissions. The
//! works of an add-on that no longer exists are deleted, and then its permissions are revoked in every
//! namespace.
//!
//! The controller renders ManifestWorks and permissions from the snapshots that the rollout assigned. It
//! writes the status when the rollout on the cluster starts and when it ends, and in between only after a
//! while ([`status::SLOW_ROLLOUT`]). So a rollout costs a cluster two writes.

mod deployment;
mod hook;
mod leftovers;
mod status;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::rbac::v1::RoleBinding;

use self::deployment::{Deployment, registries};
use crate::addon_reads;
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::condition::{Conditions as _, set_condition};
use api::gitops::v1alpha1::RolloutPolicy;
use api::names::{ADDON_NAME_LABEL, ADDON_PRE_DELETE, cluster_conditions};
use api::work::v1::ManifestWork;
use engine::addon::health::WorksStatus;
use engine::addon::{config_refs, registration};
use object::{Key, Metadata as _};
use reconcile::{
    Change, Controller, Executed, Index, Observes, Plan, Query, Read, StatusWrite, View, Watches,
};

pub(crate) struct AddonDeployController;

/// Since when each add-on has a work that its agent cannot apply. The times are of the clock of the hub,
/// because the clock of the spoke may be wrong.
#[derive(Default)]
struct Refusals(BTreeMap<Key, Timestamp>);

impl Index for Refusals {
    fn build(_: &impl View) -> Read<Self> {
        Ok(Self::default())
    }

    fn observes<O: Observes<Self>>(observes: &mut O) {
        observes.on::<ManagedClusterAddOn>(|refusals, change| {
            if let Change { old: Some(old), new: None } = change {
                refusals.0.remove(&Key::of(&**old));
            }
            Vec::new()
        });
    }
}

impl Refusals {
    fn since(&mut self, key: &Key, is_refused: bool, now: Timestamp) -> Option<Timestamp> {
        if is_refused {
            return Some(*self.0.entry(key.clone()).or_insert(now));
        }
        self.0.remove(key);
        None
    }
}

impl Controller for AddonDeployController {
    const NAME: &'static str = "addon-deploy";
    type Primary = ManagedClusterAddOn;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManifestWork>(|change, _| {
            let addon =
                |work: &ManifestWork| Some(Key::namespaced(work.namespace(), work.label(ADDON_NAME_LABEL)?));
            change.latest().and_then(addon).into_iter().collect()
        });
        watches.on::<ManagedCluster>(|change, view| {
            let fields = |cluster: &ManagedCluster| {
                let available = cluster.condition(cluster_conditions::AVAILABLE);
                let available = available.map(|c| (c.status.clone(), c.reason.clone(), c.message.clone()));
                (registries(cluster).map(str::to_owned), available, cluster.spec.hub_accepts_client)
            };
            let cluster = change.latest().filter(|_| change.differs_in(fields));
            let addons =
                |cluster: &ManagedCluster| view.keys::<ManagedClusterAddOn>(Query::namespace(cluster.name()));
            cluster.map(addons).unwrap_or_default()
        });
        watches.on::<ClusterManagementAddOn>(|change, view| {
            let fields =
                |cma: &ClusterManagementAddOn| (config_refs::has_template(cma), config_refs::is_managed(cma));
            let Some(cma) = change.latest().filter(|_| change.differs_in(fields)) else { return Vec::new() };
            addon_reads::keys_of_clusters(cma.name(), view)
        });
        watches.read::<ControllerRevision>();
        watches.on::<RoleBinding>(|change, _| {
            change.latest().and_then(registration::addon_of_binding).into_iter().collect()
        });
        watches.on::<RolloutPolicy>(|change, view| {
            let fields = |policy: &RolloutPolicy| (policy.spec.add_ons.clone(), policy.spec.success.clone());
            if change.differs_in(fields) { view.keys::<ManagedClusterAddOn>(Query::ALL) } else { Vec::new() }
        });
        watches.keep::<Refusals>();
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let Some(addon) = view.get::<ManagedClusterAddOn>(key)? else {
            return leftovers::delete(key, view, now);
        };
        let is_deleted = addon.is_terminating();
        // The works of a deleted add-on stay until it is gone.
        if is_deleted && !addon.has_finalizer(ADDON_PRE_DELETE) {
            return Ok(Plan::nothing());
        }
        let Some(deployment) = Deployment::read(Arc::clone(&addon), view)? else {
            let is_alone = is_deleted && view.get::<ManagedCluster>(&Key::cluster(&key.namespace))?.is_none();
            return Ok(if is_alone { hook::release(&addon) } else { Plan::nothing() });
        };
        if is_deleted {
            return Ok(deployment.finish(now));
        }
        let is_refused = matches!(deployment.works_status, WorksStatus::Refused(_));
        let refused_since = view.index(|refusals: &mut Refusals| refusals.since(key, is_refused, now))?;
        Ok(deployment.plan(refused_since, now))
    }

    fn conclude(key: &Key, view: &impl View, done: &Executed, now: Timestamp) -> Option<StatusWrite> {
        if done.is_success() {
            return done.plan.status.clone();
        }
        let addon = view.get::<ManagedClusterAddOn>(key).ok().flatten()?;
        let refused = done.failures().find_map(|(action, failure)| status::refused_write(action, failure))?;
        let mut new = ManagedClusterAddOn::clone(&addon);
        let conditions = &mut new.status.get_or_insert_default().conditions;
        for condition in refused {
            set_condition(conditions, condition, now);
        }
        StatusWrite::between(addon.as_ref(), &new)
    }
}
