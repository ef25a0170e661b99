//! The works of an Application on the hub.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::work;
use crate::multimap;
use api::argoproj::v1alpha1::Application;
use api::names::argo::{APPLICATION_UID_LABEL, PULL_CLUSTER_ANNOTATION};
use api::work::v1::ManifestWork;
use object::names::is_dns_label;
use object::{Key, Metadata as _, ObjectRef};
use reconcile::{Action, Index, Observes, Query, Read, View};

/// The works by the Application that they name. Most works name none, so an index avoids going over all of them.
pub(super) struct NamedWorks(BTreeMap<Key, BTreeSet<Key>>);

impl NamedWorks {
    fn insert(&mut self, work: &ManifestWork) {
        if let Some(application) = work::application_of(work) {
            self.0.entry(application).or_default().insert(Key::of(work));
        }
    }
}

impl Index for NamedWorks {
    fn build(view: &impl View) -> Read<Self> {
        let mut named = Self(BTreeMap::new());
        for work in view.list_readable::<ManifestWork>(Query::ALL)? {
            named.insert(&work);
        }
        Ok(named)
    }

    fn observes<O: Observes<Self>>(observes: &mut O) {
        observes.on::<ManifestWork>(|named, change| {
            if let Some(old) = &change.old
                && let Some(application) = work::application_of(old)
            {
                multimap::remove(&mut named.0, &application, &Key::of(old.as_ref()));
            }
            if let Some(new) = &change.new {
                named.insert(new);
            }
            Vec::new()
        });
    }
}

/// Returns the deletions of works that are not being deleted yet.
pub(super) fn deletions<'a>(
    works: impl Iterator<Item = &'a Arc<ManifestWork>>,
) -> impl Iterator<Item = Action> {
    works.filter(|work| !work.is_terminating()).map(|work| Action::delete(work.as_ref()))
}

/// Returns the works of an Application on all clusters. A work of `argocd-pull-integration` lacks the label.
pub(super) fn list(application: &Application, view: &impl View) -> Read<Vec<Arc<ManifestWork>>> {
    let label = Query::label(APPLICATION_UID_LABEL, application.uid());
    let mut works = view.list::<ManifestWork>(label)?;
    if let Some(key) = key_of_work(application)
        && let Some(work) = view.get::<ManifestWork>(&key)?
        && work.label(APPLICATION_UID_LABEL).is_none()
    {
        works.push(work);
    }
    works.retain(|work| work::is_of(work, application));
    Ok(works)
}

/// Returns the works of an earlier Application with the same namespace and name. It no longer exists if the API
/// server has this one in its place.
///
/// # Errors
/// Fails if the works have not been read.
pub(super) fn of_former(application: &Application, view: &impl View) -> Read<Vec<Arc<ManifestWork>>> {
    let key = Key::of(application);
    let named = view.index(|named: &mut NamedWorks| named.0.get(&key).cloned().unwrap_or_default())?;
    let mut works = named
        .iter()
        .map(|work| view.get_readable::<ManifestWork>(work))
        .filter_map(Read::transpose)
        .collect::<Read<Vec<_>>>()?;
    works.retain(|work| work::is_of_former(work, application));
    if works.is_empty() {
        return Ok(works);
    }
    // The cache may still have the earlier Application, and the work of the current one.
    let live = view.object(&ObjectRef::of::<Application>(key)).ok().flatten();
    Ok(if live.is_some_and(|live| live.uid() == application.uid()) { works } else { Vec::new() })
}

/// Returns true if the hub has a work of an Application that is wrongly missing from a list.
pub(super) fn has_unlisted(application: &Application, view: &impl View) -> Read<bool> {
    let Some(key) = key_of_work(application) else { return Ok(false) };
    let work = view.object(&ObjectRef::of::<ManifestWork>(key))?;
    let work = work.and_then(|work| work.to_typed::<ManifestWork>().ok());
    Ok(work.is_some_and(|work| work::is_of(&work, application)))
}

/// Returns the key of the work on the cluster that an Application names, if that is a valid cluster name.
fn key_of_work(application: &Application) -> Option<Key> {
    let cluster = application.annotation(PULL_CLUSTER_ANNOTATION).filter(|name| is_dns_label(name))?;
    Some(Key::namespaced(cluster, work::name(application)))
}
