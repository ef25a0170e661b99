//! Deploys an add-on to its cluster and reports its health.
//!
//! A cluster that the hub does not accept gets no new works, and its add-ons lose their permissions. When an
//! add-on no longer exists, its works are deleted, and then its permissions are revoked in every namespace.
//!
//! The controller renders ManifestWorks and permissions from the snapshots that the rollout assigned. It writes
//! the status when the rollout on the cluster starts and ends. In between, it writes only if the rollout is slow
//! ([`status::SLOW_ROLLOUT`]), so a rollout costs two writes per cluster.
//!
//! Part of an add-on may run on a hosting cluster, whose changes also wake the add-on.

mod deployment;
mod index;
mod status;
mod takeover;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::rbac::v1::RoleBinding;

use self::deployment::{AddOnDeployment, permissions_of, registries};
use self::index::{DeployIndex, ReadContents};
pub(crate) use self::takeover::AddOnTakeoverController;
use crate::addon_reads;
use addon_lifecycle::{delete_leftovers, release};
use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::gitops::v1alpha1::RolloutPolicy;
use api::work::v1::ManifestWork;
use engine::addon::hosting::{FINALIZERS, addon_of};
use engine::addon::{config_refs, registration};
use object::{Key, Metadata as _};
use reconcile::{Controller, Executed, Plan, Query, Read, StatusWrite, View, Watches};

pub(crate) struct AddOnDeployController;

impl Controller for AddOnDeployController {
    const NAME: &'static str = "addon-deploy";
    type Primary = ManagedClusterAddOn;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManifestWork>(|change, _| change.latest().and_then(addon_of).into_iter().collect());
        watches.on::<ManagedCluster>(|change, view| {
            let fields =
                |cluster: &ManagedCluster| (registries(cluster).map(str::to_owned), index::state_of(cluster));
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
            let differs = change
                .differs_in(|RolloutPolicy { spec, .. }| (&spec.add_ons, &spec.replica_sets, &spec.success));
            if differs { addon_reads::keys_of_policy(change, view) } else { Vec::new() }
        });
        watches.keep::<DeployIndex>();
        watches.keep::<ReadContents>();
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let Some(addon) = view.get::<ManagedClusterAddOn>(key)? else {
            return delete_leftovers(key, &permissions_of(key, view)?, view, now);
        };
        let is_deleted = addon.is_terminating();
        // The works of a deleted add-on stay until it is gone.
        if is_deleted && !FINALIZERS.iter().any(|finalizer| addon.has_finalizer(finalizer)) {
            return Ok(Plan::nothing());
        }
        let Some(mut deployment) = AddOnDeployment::read(Arc::clone(&addon), view)? else {
            return release(addon, true, view, now);
        };
        if is_deleted {
            // An add-on without a template has its own manager, which handles its finalizers.
            return Ok(if deployment.has_template { deployment.finish(now) } else { Plan::nothing() });
        }
        let deployed = view.index(|index: &mut DeployIndex| index.deployed(key))?;
        let plan = deployment.plan(deployed, view, now)?;
        let deployed = deployment.deployed(deployed, &plan, now);
        view.index(|index: &mut DeployIndex| index.keep_deployed(key, deployed))?;
        Ok(plan)
    }

    fn conclude(key: &Key, view: &impl View, done: &Executed, now: Timestamp) -> Read<Option<StatusWrite>> {
        addon_lifecycle::conclude(key, view, done, now)
    }
}
