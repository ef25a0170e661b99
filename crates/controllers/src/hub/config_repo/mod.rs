//! Applies the objects of a repository to the hub, and reports the result in conditions.
//!
//! The source controller fetches a commit. This controller renders it, plans the writes and sets the conditions.
//! If a fetch, a rendering, an object or a write fails, the last applied commit stays applied.

mod approval;
mod charts;
mod commit;
mod compare;
mod definitions;
mod deletion;
mod depends;
mod drift;
mod event;
mod failed;
mod gate;
mod held_changes;
mod identity;
mod index;
mod inventory;
mod loosening;
mod moves;
mod observe;
mod paths;
mod permission;
mod plan;
mod policy;
mod random_values;
mod read;
mod refusal;
mod report;
mod sealing;
mod status;
mod wakes;
mod write;

pub use crate::followed::is_same_repository;
pub use charts::chart_digest;
pub use depends::is_same_source;
pub(super) use identity::RepoIdentity;
use index::RepoIndex;
pub use paths::directories;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;

use api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};
use api::cluster::v1::ManagedCluster;
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoInventory, RolloutPolicy};
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use object::Key;
use reconcile::{Controller, Executed, Plan, Read, StatusWrite, View, Watches};

/// The controller of [`ConfigRepo`]s.
#[derive(Debug)]
pub(crate) struct ConfigRepoController;

impl Controller for ConfigRepoController {
    const NAME: &'static str = "config-repo";
    type Primary = ConfigRepo;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ConfigRepo>(wakes::others);
        watches.on::<ConfigRepoInventory>(inventory::wake);
        watches.on::<Namespace>(wakes::of_namespace);
        // Shows whether an approved deletion did not happen.
        watches.read::<ClusterManagementAddOn>();
        // Show how many clusters lose an add-on with its ClusterManagementAddOn, or a work with its set.
        watches.read::<ManagedClusterAddOn>();
        watches.read::<ManifestWork>();
        watches.read::<ManifestWorkReplicaSet>();
        watches.read::<ManagedCluster>();
        watches.read::<RolloutPolicy>();
        watches.on_source(|repo| vec![repo.clone()]);
        watches.on_observed(wakes::owners);
        watches.keep::<RepoIndex>();
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        match view.get::<ConfigRepo>(key)? {
            Some(repo) => plan::plan(&repo, view, now),
            None => {
                let mut plan = Plan::nothing();
                plan.step(inventory::release_former(key, view)?);
                Ok(plan)
            }
        }
    }

    fn conclude(key: &Key, view: &impl View, done: &Executed, now: Timestamp) -> Read<Option<StatusWrite>> {
        let Some(repo) = view.get::<ConfigRepo>(key)? else { return Ok(None) };
        Ok(match done.is_success() {
            true => done.plan.status.as_ref().and_then(|draft| status::rebase(&repo, draft)),
            false => failed::failed(&repo, view, done, now),
        })
    }
}

#[cfg(test)]
mod tests;
