//! Applies what a repository holds to the hub, and says what became of it.
//!
//! The git station fetches; this controller renders what was fetched, plans the writes and concludes with conditions. Whatever
//! fails (the fetch, the rendering, a refused object, a write), what was applied last stays applied.

mod commit;
mod decide;
mod status;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;

use api::gitops::v1alpha1::ConfigRepo;
use api::names;
use object::{Key, Object};
use reconcile::{Change, Controller, Executed, Plan, Query, Read, StatusWrite, View, Watches};

/// The controller of [`ConfigRepo`]s.
#[derive(Debug)]
pub struct ConfigRepoController;

impl Controller for ConfigRepoController {
    const NAME: &'static str = "config-repo";
    type Primary = ConfigRepo;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ConfigRepo>(rivals);
        watches.on::<Namespace>(waiting);
        watches.on_observed(owner);
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let repo = view.get::<ConfigRepo>(key)?;
        Ok(repo.map_or_else(Plan::nothing, |repo| decide::plan(&repo, view, now)))
    }

    fn conclude(key: &Key, view: &impl View, done: &Executed, now: Timestamp) -> Option<StatusWrite> {
        let repo = view.get::<ConfigRepo>(key).ok()??;
        if done.is_success() {
            return status::rebase(&repo, done.plan.status.as_ref()?);
        }
        status::failed(&repo, view, done, now)
    }
}

/// Other repositories may go on when one lets go of an object.
fn rivals<V: View>(change: &Change<ConfigRepo>, view: &V) -> Vec<Key> {
    let owned = |repo: Option<&ConfigRepo>| {
        repo.and_then(|repo| repo.status.as_ref()).map_or(0, |status| status.inventory.len())
    };
    if owned(change.new.as_deref()) >= owned(change.old.as_deref()) {
        return Vec::new();
    }
    let own: Vec<_> = change.sides().map(Key::of).collect();
    let all = view.list::<ConfigRepo>(Query::ALL).unwrap_or_default();
    all.iter().map(|repo| Key::of(&**repo)).filter(|key| !own.contains(key)).collect()
}

/// A namespace that comes may be what a repository waits for.
fn waiting<V: View>(change: &Change<Namespace>, view: &V) -> Vec<Key> {
    if change.old.is_some() {
        return Vec::new();
    }
    let all = view.list::<ConfigRepo>(Query::ALL).unwrap_or_default();
    let waits = |repo: &ConfigRepo| {
        let conditions = repo.status.iter().flat_map(|status| &status.conditions);
        conditions.into_iter().any(|condition| condition.reason == "NamespaceNotFound")
    };
    all.iter().filter(|repo| waits(repo)).map(|repo| Key::of(&**repo)).collect()
}

/// The repositories an object belongs or belonged to, unless nothing but its status changed.
fn owner<V: View>(change: &Change<Object>, _: &V) -> Vec<Key> {
    if let (Some(old), Some(new)) = (&change.old, &change.new)
        && content(old).eq(content(new))
        && old.annotations() == new.annotations()
        && old.is_terminating() == new.is_terminating()
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
