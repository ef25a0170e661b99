//! The works that an Application has on the hub.

use std::sync::Arc;

use super::work;
use api::argoproj::v1alpha1::Application;
use api::names::argo::{APPLICATION_UID_LABEL, PULL_CLUSTER_ANNOTATION};
use api::work::v1::ManifestWork;
use object::names::is_dns_label;
use object::{Key, Metadata as _, ObjectRef};
use reconcile::{Action, Query, Read, View};

/// Returns the deletions of works that are not deleted yet.
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

/// Returns whether the hub has a work of an Application that a list wrongly leaves out.
pub(super) fn has_unlisted(application: &Application, view: &impl View) -> Read<bool> {
    let Some(key) = key_of_work(application) else { return Ok(false) };
    let work = view.object(&ObjectRef::of::<ManifestWork>(key))?;
    let work = work.and_then(|work| work.to_typed::<ManifestWork>().ok());
    Ok(work.is_some_and(|work| work::is_of(&work, application)))
}

/// Returns the key of the work on the cluster that an Application names, if that can be the name of a
/// cluster.
fn key_of_work(application: &Application) -> Option<Key> {
    let cluster = application.annotation(PULL_CLUSTER_ANNOTATION).filter(|name| is_dns_label(name))?;
    Some(Key::namespaced(cluster, work::name(application)))
}
