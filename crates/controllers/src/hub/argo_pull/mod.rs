//! Puts Applications of Argo CD into works, so that the Argo CD of a managed cluster runs them.
//!
//! It is the controller of the hub in `argocd-pull-integration`: an Application with a label and a cluster
//! becomes a work, and its state on the cluster is written to its status. A work is deleted when its
//! Application is deleted or has another cluster, and for no other reason: an Application that asks no more,
//! or whose cluster is gone, keeps its work and gets an event.

mod status;
#[cfg(test)]
mod tests;
mod work;

use std::sync::Arc;

use jiff::Timestamp;

use api::argoproj::v1alpha1::Application;
use api::cluster::v1::ManagedCluster;
use api::names::argo::{
    APPLICATION_UID_LABEL, PULL_CLUSTER_ANNOTATION, PULL_FINALIZER, PULL_LABEL, RESOURCES_FINALIZERS,
    SKIP_RECONCILE_ANNOTATION,
};
use api::work::v1::ManifestWork;
use object::names::is_dns_label;
use object::{Key, Metadata as _, ObjectRef};
use reconcile::{Action, Controller, Event, EventType, Plan, Query, Read, View, Watches};

/// Limit of the name of a work: an agent puts the hash of the hub, of 64 bytes, and a hyphen before it.
const MAX_WORK_NAME: usize = 253 - 65;

pub(crate) struct ArgoPullController;

impl Controller for ArgoPullController {
    const NAME: &'static str = "argo-pull";
    type Primary = Application;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManifestWork>(|change, _| change.sides().filter_map(work::application_of).collect());
        watches.on::<ManagedCluster>(|change, view| {
            if !change.differs_in(takes_works) {
                return Vec::new();
            }
            let clusters: Vec<Key> = change.sides().map(Key::of).collect();
            let applications = view.readable::<Application>(Query::label(PULL_LABEL, "true"));
            let is_there = |application: &&Arc<Application>| {
                let name = application.annotation(PULL_CLUSTER_ANNOTATION);
                name.is_some_and(|name| clusters.iter().any(|cluster| cluster.name == name))
            };
            applications.iter().filter(is_there).map(|application| Key::of(&**application)).collect()
        });
    }

    fn plan(key: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        let Some(application) = view.get::<Application>(key)? else { return Ok(plan) };
        let is_held = application.has_finalizer(PULL_FINALIZER);
        if application.is_terminating() {
            if is_held {
                leave(&mut plan, &application, view)?;
            }
        } else if is_held || application.label(PULL_LABEL) == Some("true") {
            match cluster_of(&application, view)? {
                Ok(cluster) if is_held => keep(&mut plan, &application, cluster, view)?,
                // The next plan goes on, with the version that this write makes.
                Ok(_) => plan.step(Action::add_finalizers(application.as_ref(), &[PULL_FINALIZER])),
                Err(why) => plan.events.push(refused(&application, why)),
            }
        }
        Ok(plan)
    }
}

fn takes_works(cluster: &ManagedCluster) -> bool {
    cluster.spec.hub_accepts_client && !cluster.is_terminating()
}

/// Returns the cluster that should run an Application, or why its work is not written.
fn cluster_of<'a>(application: &'a Application, view: &impl View) -> Read<Result<&'a str, String>> {
    if application.label(PULL_LABEL) != Some("true") {
        let why = format!("it has no label {PULL_LABEL}=true any more; delete it, or set the label again");
        return Ok(Err(why));
    }
    if application.annotation(SKIP_RECONCILE_ANNOTATION) != Some("true") {
        let why = "the Argo CD of the hub would run it too; set the annotation";
        return Ok(Err(format!("{why} {SKIP_RECONCILE_ANNOTATION}=true")));
    }
    let Some(cluster) = application.annotation(PULL_CLUSTER_ANNOTATION) else {
        return Ok(Err(format!("no cluster is named; set the annotation {PULL_CLUSTER_ANNOTATION}")));
    };
    let name = work::name(application);
    if name.len() > MAX_WORK_NAME {
        let why = format!("the name of the work has {} characters, and {MAX_WORK_NAME} fit", name.len());
        return Ok(Err(format!("{why}; give the Application a shorter name")));
    }
    let why = match view.get::<ManagedCluster>(&Key::cluster(cluster))? {
        Some(live) if takes_works(&live) => return Ok(Ok(cluster)),
        Some(_) => "is not accepted or is deleted; accept it",
        None => "does not exist; create it",
    };
    Ok(Err(format!("the cluster {cluster:?} {why}, or name another in {PULL_CLUSTER_ANNOTATION}")))
}

/// Tells that the work of an Application is not written, and stays if there is one.
fn refused(application: &Application, why: String) -> Event {
    let message = format!("cannot write the work of the Application: {why}");
    Event::new(application, EventType::Warning, "ApplicationNotPulled", "Pull", message)
}

/// Plans the work of an Application on its cluster, the end of those on others, and the status.
fn keep(plan: &mut Plan, application: &Application, cluster: &str, view: &impl View) -> Read<()> {
    let key = Key::namespaced(cluster, work::name(application));
    let live = view.get::<ManifestWork>(&key)?;
    if live.as_ref().is_some_and(|live| !work::is_of(live, application)) {
        let why = format!("the work {key} is of another Application or of none; delete it");
        plan.events.push(refused(application, why));
        return Ok(());
    }
    if live.as_ref().is_some_and(|live| live.is_terminating()) {
        return Ok(());
    }
    plan.step(work::write(application, cluster, live.as_deref()));
    let works = works(application, view)?;
    plan.step(deletions(works.iter().filter(|work| work.namespace() != cluster)));
    plan.step(status::write(application, live.as_deref()));
    Ok(())
}

/// Plans the deletion of the works of an Application, then that of the finalizers.
fn leave(plan: &mut Plan, application: &Application, view: &impl View) -> Read<()> {
    let works = works(application, view)?;
    if works.is_empty() && !has_unlisted_work(application, view)? {
        // The Argo CD of the hub leaves the Application alone, so nobody else removes these.
        let mut finalizers = RESOURCES_FINALIZERS.to_vec();
        finalizers.push(PULL_FINALIZER);
        plan.step(Action::remove_finalizers(application, &finalizers));
    } else {
        plan.step(deletions(works.iter()));
    }
    Ok(())
}

fn deletions<'a>(works: impl Iterator<Item = &'a Arc<ManifestWork>>) -> impl Iterator<Item = Action> {
    works.filter(|work| !work.is_terminating()).map(|work| Action::delete(work.as_ref()))
}

/// Returns the works of an Application on all clusters. A work of `argocd-pull-integration` lacks the label.
fn works(application: &Application, view: &impl View) -> Read<Vec<Arc<ManifestWork>>> {
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
fn has_unlisted_work(application: &Application, view: &impl View) -> Read<bool> {
    let Some(key) = key_of_work(application) else { return Ok(false) };
    let work = view.object(&ObjectRef::of::<ManifestWork>(key))?;
    let work = work.and_then(|work| work.to_typed::<ManifestWork>().ok());
    Ok(work.is_some_and(|work| work::is_of(&work, application)))
}

/// Returns the key of the work on the cluster that an Application names, if that can be the name of a cluster.
fn key_of_work(application: &Application) -> Option<Key> {
    let cluster = application.annotation(PULL_CLUSTER_ANNOTATION).filter(|name| is_dns_label(name))?;
    Some(Key::namespaced(cluster, work::name(application)))
}
