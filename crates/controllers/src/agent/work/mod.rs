//! Applies ManifestWorks to the spoke, reports their status, and removes what they no longer want.
//!
//! The inventory of a work is its AppliedManifestWork on the spoke: it names an object before the object is created and until its
//! deletion has been seen. An object belongs to a work when it has an owner reference with the uid of that inventory; an object
//! without one is never deleted.

mod plan;
mod status;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use self::plan::WorkOnSpoke;
use crate::agent_identity;
use api::cluster::v1alpha1::ClusterClaim;
use api::names::AGENT_CLAIM;
use api::work::v1::{AppliedManifestWork, ManifestResourceMeta, ManifestWork};
use object::{Key, Metadata as _, Object};
use reconcile::{Controller, Executed, Plan, Query, Read, Site, StatusWrite, View, Watches};

pub(crate) struct WorkController;

impl Controller for WorkController {
    const NAME: &'static str = "work-agent";
    type Primary = ManifestWork;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on_site::<AppliedManifestWork>(Site::Spoke, |change, view| {
            let Ok(Some(identity)) = agent_identity::identity(view) else { return Vec::new() };
            change.latest().and_then(|applied| identity.work(applied.name())).into_iter().collect()
        });
        // An object may have lost an owner, who will want it back.
        watches
            .on_observed(|change, view| change.sides().flat_map(|object| works_of(object, view)).collect());
        watches.on_site::<ClusterClaim>(Site::Spoke, |change, view| {
            let claim = change.latest().filter(|claim| claim.name() == AGENT_CLAIM);
            claim.map(|_| view.keys::<ManifestWork>(Query::ALL)).unwrap_or_default()
        });
    }

    fn plan(key: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        let work = WorkOnSpoke::read(key, view)?;
        Ok(work.map_or_else(Plan::nothing, |work| work.plan(view)))
    }

    fn conclude(key: &Key, view: &impl View, done: &Executed, now: Timestamp) -> Option<StatusWrite> {
        let on_spoke = WorkOnSpoke::read(key, view).ok().flatten()?;
        let work = on_spoke.work.as_ref()?;
        let status = on_spoke.status(view, done, now)?;
        let new = ManifestWork { status: Some(status), ..ManifestWork::clone(work) };
        StatusWrite::between(work.as_ref(), &new)
    }
}

/// The works that own an object on the spoke; where there are none, those that report about it.
fn works_of(object: &Object, view: &impl View) -> Vec<Key> {
    let Ok(Some(identity)) = agent_identity::identity(view) else { return Vec::new() };
    let owners = object.at(&["metadata", "ownerReferences"]).and_then(Value::as_array).into_iter().flatten();
    let applied =
        owners.filter(|owner| owner.get("kind").and_then(Value::as_str) == Some("AppliedManifestWork"));
    let works: Vec<Key> = applied.filter_map(|owner| identity.work(owner.get("name")?.as_str()?)).collect();
    if !works.is_empty() {
        return works;
    }
    let reference = object.reference();
    let is_it = |m: &ManifestResourceMeta| {
        (&m.group, &m.kind, &m.namespace, &m.name)
            == (&reference.gvk.group, &reference.gvk.kind, &reference.key.namespace, &reference.key.name)
    };
    let reports = |work: &&Arc<ManifestWork>| {
        let status = work.status.iter();
        let mut manifests = status.flat_map(|status| &status.resource_status.manifests);
        manifests.any(|manifest| is_it(&manifest.resource_meta))
    };
    let all = view.list::<ManifestWork>(Query::namespace(&identity.cluster)).unwrap_or_default();
    all.iter().filter(reports).map(|work| Key::of(work.as_ref())).collect()
}
