//! Finds the ConfigRepos that a change wakes.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;

use super::index::is_relevant;
use super::{depends, identity, moves};
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoMode};
use api::names;
use object::{Key, Object};
use reconcile::{Change, Query, View};

/// Wakes the ConfigRepos that wait for one. If a ConfigRepo is deleted or starts to observe, wakes all others,
/// because they may want its objects.
pub(super) fn others<V: View>(change: &Change<ConfigRepo>, view: &V) -> Vec<Key> {
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
pub(super) fn of_namespace<V: View>(change: &Change<Namespace>, view: &V) -> Vec<Key> {
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

/// Wakes the ConfigRepos to which an object belongs or belonged. The [`RepoIndex`](super::index::RepoIndex) wakes
/// those that observe it.
pub(super) fn owners<V: View>(change: &Change<Object>, _: &V) -> Vec<Key> {
    if !is_relevant(change) {
        return Vec::new();
    }
    let marked = change.sides().filter_map(|object| {
        let (namespace, name) = object.annotations().get(names::CONFIG_REPO_ANNOTATION)?.split_once('/')?;
        Some(Key::namespaced(namespace, name))
    });
    marked.collect()
}
