//! Wraps Applications of Argo CD in works, so that Argo CD on a managed cluster runs them.
//!
//! This is the hub controller of `argocd-pull-integration`: an Application with a label and a cluster becomes a
//! work, and its state on the cluster is copied to its status. A work is deleted only if its Application is
//! deleted or moves to another cluster, or if a new Application with the same name has reached the cluster. An
//! Application that loses the label, or whose cluster is gone, keeps its work and gets an event.

mod cluster;
mod leave;
mod status;
#[cfg(test)]
mod tests;
mod work;
mod works;

use std::sync::Arc;

use jiff::Timestamp;

use self::cluster::{cluster_of, is_hub, refused, takes_works};
use self::leave::leave;
use api::argoproj::v1alpha1::Application;
use api::cluster::v1::ManagedCluster;
use api::names::argo::{PULL_CLUSTER_ANNOTATION, PULL_FINALIZER, PULL_LABEL};
use api::work::v1::ManifestWork;
use object::{Key, Metadata as _};
use reconcile::{Action, Controller, Plan, Query, Read, View, Watches};

pub(crate) struct ArgoPullController;

impl Controller for ArgoPullController {
    const NAME: &'static str = "argo-pull";
    type Primary = Application;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManifestWork>(|change, _| change.sides().filter_map(work::application_of).collect());
        watches.keep::<works::NamedWorks>();
        watches.on::<ManagedCluster>(|change, view| {
            if !change.differs_in(|cluster| (takes_works(cluster), is_hub(cluster))) {
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
                // The next plan continues with the resource version that this write creates.
                Ok(_) => plan.step(Action::add_finalizers(application.as_ref(), &[PULL_FINALIZER])),
                Err(reason) => plan.events.push(refused(&application, reason)),
            }
        }
        Ok(plan)
    }
}

/// Plans the work of an Application on its cluster, the deletion of works on other clusters, and the status.
fn keep(plan: &mut Plan, application: &Application, cluster: &str, view: &impl View) -> Read<()> {
    let key = Key::namespaced(cluster, work::name(application));
    let live = view.get::<ManifestWork>(&key)?;
    if live.as_ref().is_some_and(|live| !work::is_of(live, application)) {
        let reason = format!("the work {key} does not belong to this Application; delete it");
        plan.events.push(refused(application, reason));
        return Ok(());
    }
    if live.as_ref().is_some_and(|live| live.is_terminating()) {
        plan.step(status::write_unknown(application));
        return Ok(());
    }
    plan.step(work::write(application, cluster, live.as_deref()));
    let works = works::list(application, view)?;
    // On the same cluster, the Application survives only if the new work has also been applied.
    let is_applied = live.as_ref().is_some_and(|live| work::is_applied(live));
    let of_former = works::of_former(application, view)?;
    let left = works.iter().filter(|work| work.namespace() != cluster);
    let replaced = of_former.iter().filter(|work| work.namespace() != cluster || is_applied);
    plan.step(works::deletions(left.chain(replaced)));
    plan.step(status::write(application, live.as_deref()));
    Ok(())
}
