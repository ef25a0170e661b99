//! The cluster that runs an Application.

use super::work;
use api::argoproj::v1alpha1::Application;
use api::cluster::v1::ManagedCluster;
use api::names::LOCAL_CLUSTER_LABEL;
use api::names::argo::{
    PULL_CLUSTER_ANNOTATION, PULL_LABEL, PULL_NAMESPACE_ANNOTATION, SKIP_RECONCILE_ANNOTATION,
};
use object::{Key, Metadata as _};
use reconcile::{Event, EventType, Read, View};

/// Maximum length of a work name. An agent prepends the hash of the hub, of 64 bytes, and a hyphen.
pub(super) const MAX_WORK_NAME: usize = 253 - 65;

/// Returns true if the hub may send works to a cluster.
pub(super) fn takes_works(cluster: &ManagedCluster) -> bool {
    cluster.spec.hub_accepts_client && !cluster.is_terminating()
}

/// Returns true if a cluster is the hub itself.
pub(super) fn is_hub(cluster: &ManagedCluster) -> bool {
    cluster.label(LOCAL_CLUSTER_LABEL) == Some("true")
}

/// Returns the cluster that should run an Application, or the reason that its work is not written.
pub(super) fn cluster_of<'a>(
    application: &'a Application,
    view: &impl View,
) -> Read<Result<&'a str, String>> {
    if application.label(PULL_LABEL) != Some("true") {
        let reason = format!("it no longer has the label {PULL_LABEL}=true; delete it or restore the label");
        return Ok(Err(reason));
    }
    if application.annotation(SKIP_RECONCILE_ANNOTATION) != Some("true") {
        let reason = "Argo CD on the hub would run it too; set the annotation";
        return Ok(Err(format!("{reason} {SKIP_RECONCILE_ANNOTATION}=true")));
    }
    let Some(cluster) = application.annotation(PULL_CLUSTER_ANNOTATION) else {
        return Ok(Err(format!("no cluster is named; set the annotation {PULL_CLUSTER_ANNOTATION}")));
    };
    let name = work::name(application);
    if name.len() > MAX_WORK_NAME {
        let reason = format!(
            "the name of the work has {} characters, but at most {MAX_WORK_NAME} are allowed",
            name.len()
        );
        return Ok(Err(format!("{reason}; give the Application a shorter name")));
    }
    let is_in_place = work::namespace(application) == application.namespace();
    let reason = match view.get::<ManagedCluster>(&Key::cluster(cluster))? {
        Some(live) if !takes_works(&live) => "is not accepted or is being deleted; accept it",
        Some(live) if is_in_place && is_hub(&live) => {
            let reason =
                format!("the cluster {cluster:?} is the hub, so the Application would overwrite itself");
            return Ok(Err(format!("{reason}; name another namespace in {PULL_NAMESPACE_ANNOTATION}")));
        }
        Some(_) => return Ok(Ok(cluster)),
        None => "does not exist; create it",
    };
    Ok(Err(format!("the cluster {cluster:?} {reason}, or name another in {PULL_CLUSTER_ANNOTATION}")))
}

/// Reports that the work of an Application is not written. An existing work stays.
pub(super) fn refused(application: &Application, reason: String) -> Event {
    let message = format!("cannot write the work of the Application: {reason}");
    Event::new(application, EventType::Warning, "ApplicationNotPulled", "Pull", message)
}
