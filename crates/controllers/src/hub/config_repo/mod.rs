//! Applies the objects of a repository to the hub, and reports the result in conditions.
//!
//! The source controller fetches a commit. This controller renders it, plans the writes and sets the
//! conditions. If a fetch, a rendering, an object or a write fails, the commit that was applied last stays
//! applied.

mod approval;
mod commit;
mod deletion;
mod depends;
mod drift;
mod event;
mod freeze;
mod health;
mod identity;
mod index;
mod inventory;
mod moves;
mod observe;
mod plan;
mod policy;
mod status;

pub(super) use identity::Identity;
use index::RepoIndex;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;

use api::addon::v1alpha1::ManagedClusterAddOn;
use api::cluster::v1::ManagedCluster;
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoInventory, ConfigRepoMode, RolloutPolicy};
use api::names;
use api::work::v1::ManifestWork;
use api::work::v1alpha1::ManifestWorkReplicaSet;
use engine::sync::Health;
use object::{Key, Object};
use reconcile::{Change, Controller, Executed, Plan, Query, Read, StatusWrite, View, Watches};

/// The controller of [`ConfigRepo`]s.
#[derive(Debug)]
pub(crate) struct ConfigRepoController;

impl Controller for ConfigRepoController {
    const NAME: &'static str = "config-repo";
    type Primary = ConfigRepo;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ConfigRepo>(wake_others);
        watches.on::<ConfigRepoInventory>(inventory::wake);
        watches.on::<Namespace>(wake_repos_of_namespace);
        // They show how many clusters lose an add-on with its ClusterManagementAddOn, and a work with its
        // set.
        watches.read::<ManagedClusterAddOn>();
        watches.read::<ManifestWork>();
        watches.read::<ManifestWorkReplicaSet>();
        watches.read::<ManagedCluster>();
        watches.read::<RolloutPolicy>();
        watches.on_source(|repo| vec![repo.clone()]);
        watches.on_observed(wake_owners);
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

    fn conclude(key: &Key, view: &impl View, done: &Executed, now: Timestamp) -> Option<StatusWrite> {
        let repo = view.get::<ConfigRepo>(key).ok()??;
        if done.is_success() {
            return status::rebase(&repo, done.plan.status.as_ref()?);
        }
        status::failed(&repo, view, done, now)
    }
}

/// Wakes the ConfigRepos that wait for one, and all others when one is deleted or begins to observe, because
/// they may want its objects.
fn wake_others<V: View>(change: &Change<ConfigRepo>, view: &V) -> Vec<Key> {
    let owns = |repo: &Option<Arc<ConfigRepo>>| {
        repo.as_ref().is_some_and(|repo| repo.spec.mode != ConfigRepoMode::Observe)
    };
    let releases = owns(&change.old) && !owns(&change.new);
    let changed: Vec<_> = change.sides().map(Key::of).collect();
    let all = view.readable::<ConfigRepo>(Query::ALL);
    let concerned = |repo: &&Arc<ConfigRepo>| {
        let is_waiting = || moves::waits(repo) || changed.iter().any(|key| depends::is_dependent(repo, key));
        (releases || is_waiting()) && !changed.contains(&Key::of(&***repo))
    };
    all.iter().filter(concerned).map(|repo| Key::of(&**repo)).collect()
}

/// Wakes the ConfigRepos that wait for a namespace when it is created, and those in it when it allows another
/// identity.
fn wake_repos_of_namespace<V: View>(change: &Change<Namespace>, view: &V) -> Vec<Key> {
    let is_created = change.old.is_none();
    let allowed = |side: &Option<Arc<Namespace>>| side.as_deref().is_some_and(identity::allows_operator);
    let is_allowance = allowed(&change.old) != allowed(&change.new);
    if !is_created && !is_allowance {
        return Vec::new();
    }
    let name = change.latest().and_then(|namespace| namespace.metadata.name.clone()).unwrap_or_default();
    let all = view.readable::<ConfigRepo>(Query::ALL);
    let waits = |repo: &ConfigRepo| {
        let conditions = repo.status.iter().flat_map(|status| &status.conditions);
        conditions.into_iter().any(|condition| condition.reason == "NamespaceNotFound")
    };
    let concerned = |repo: &&Arc<ConfigRepo>| {
        is_created && waits(repo) || is_allowance && repo.metadata.namespace.as_ref() == Some(&name)
    };
    all.iter().filter(concerned).map(|repo| Key::of(&**repo)).collect()
}

/// Wakes the ConfigRepos that an object belongs or belonged to, unless only its status changed and the object
/// is as healthy as before.
fn wake_owners<V: View>(change: &Change<Object>, _: &V) -> Vec<Key> {
    if let (Some(old), Some(new)) = (&change.old, &change.new)
        && content(old).eq(content(new))
        && old.annotations() == new.annotations()
        && Health::of(old) == Health::of(new)
    {
        return Vec::new();
    }
    let marked = change.sides().filter_map(|object| {
        let (namespace, name) = object.annotations().get(names::CONFIG_REPO_ANNOTATION)?.split_once('/')?;
        Some(Key::namespaced(namespace, name))
    });
    marked.collect()
}

fn content(object: &Object) -> impl Iterator<Item = (&String, &serde_json::Value)> {
    object.0.iter().filter(|(field, _)| !matches!(field.as_str(), "metadata" | "status"))
}

#[cfg(test)]
mod tests;
