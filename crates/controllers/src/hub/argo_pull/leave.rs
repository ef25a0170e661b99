//! Deletes an Application: passes its deletion finalizers to its cluster, then deletes its works.
//!
//! `argocd app delete` sets or removes these finalizers right before the deletion. They determine whether Argo CD
//! on the cluster deletes the objects of the application.

use serde_json::{Value, json};

use super::cluster::{refused, takes_works};
use super::{work, works};
use api::argoproj::v1alpha1::Application;
use api::cluster::v1::ManagedCluster;
use api::condition::Condition;
use api::names::WORK_FINALIZER;
use api::names::argo::{PULL_FINALIZER, RESOURCES_FINALIZERS};
use api::names::work_conditions::{APPLIED, AVAILABLE};
use api::work::v1::ManifestWork;
use object::{Key, Metadata as _};
use reconcile::{Action, Plan, Read, View};

/// Plans the deletion of an Application's works, then the removal of its finalizers.
pub(super) fn leave(plan: &mut Plan, application: &Application, view: &impl View) -> Read<()> {
    let works = works::list(application, view)?;
    if works.is_empty() && !works::has_unlisted(application, view)? {
        // Argo CD on the hub ignores the Application, so nobody else removes these.
        let mut finalizers = RESOURCES_FINALIZERS.to_vec();
        finalizers.push(PULL_FINALIZER);
        plan.step(Action::remove_finalizers(application, &finalizers));
        return Ok(());
    }
    let mut actions = Vec::new();
    for work in works.iter().filter(|work| !work.is_terminating()) {
        if !may_run(work, view)? {
            actions.push(Action::delete(work.as_ref()));
        } else if let Some(write) = write_finalizers(application, work) {
            actions.push(write);
        } else if work::is_applied(work) {
            actions.push(Action::delete(work.as_ref()));
        } else if work::observed(work, APPLIED).is_some_and(Condition::is_false) {
            let reason = "its cluster does not apply the deletion finalizers; delete the work";
            plan.events.push(refused(application, format!("{reason} {}", Key::of(work.as_ref()))));
        }
    }
    plan.step(actions);
    Ok(())
}

/// Returns true if the cluster of a work may have the Application and can still change it. An agent adds its
/// finalizer to a work before it applies it.
fn may_run(work: &ManifestWork, view: &impl View) -> Read<bool> {
    let cluster = view.get::<ManagedCluster>(&Key::cluster(work.namespace()))?;
    let is_absent = work::observed(work, AVAILABLE).is_some_and(Condition::is_false);
    let can_write = cluster.is_some_and(|cluster| takes_works(&cluster));
    Ok(can_write && work.has_finalizer(WORK_FINALIZER) && !is_absent)
}

/// Returns the write that copies the resources finalizers of an Application to a work; `None` if it has them. An
/// operation is left out, because changed content would start it again.
fn write_finalizers(application: &Application, live: &ManifestWork) -> Option<Action> {
    let is_of_resources = |name: &String| RESOURCES_FINALIZERS.contains(&name.as_str());
    let finalizers = application.metadata.finalizers.iter().flatten();
    let wanted: Vec<String> = finalizers.filter(|name| is_of_resources(name)).cloned().collect();
    let mut work = live.clone();
    let payload = work.spec.workload.manifests.first_mut()?;
    let metadata = payload.get_mut("metadata")?.as_object_mut()?;
    let finalizers = metadata.get("finalizers").and_then(Value::as_array).into_iter().flatten();
    let names = finalizers.filter_map(Value::as_str).map(str::to_owned);
    let (present, mut next): (Vec<String>, Vec<String>) = names.partition(is_of_resources);
    if present == wanted {
        return None;
    }
    next.extend(wanted);
    if next.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), json!(next));
    }
    payload.remove("operation");
    Some(work::replace(&work))
}
