//! Deletes AppliedManifestWorks without a work on the hub.
//!
//! Open Cluster Management calls these unmanaged applied works. This controller marks those of this agent
//! with the time at which the work was first missed, for people to see (`kubectl get appliedmanifestworks`).
//! It deletes them after an hour, or after the grace period of the agent. A hub without a single work for the
//! cluster may have been restored from a backup; then the controller deletes nothing. See
//! docs/hazards.md#restored-hub.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::work::{WorkOnSpoke, fields, patch_applied};
use crate::agent_identity;
use api::cluster::v1alpha1::ClusterClaim;
use api::names::AGENT_CLAIM;
use api::work::v1::{AppliedManifestWork, ManifestWork};
use object::duration::later;
use object::{Key, Metadata as _};
use reconcile::{Action, Controller, Plan, Query, Read, Site, Subresource, View, Watches};

/// The grace period from which nothing is marked or deleted, as in Open Cluster Management: 100 years.
const NEVER: SignedDuration = SignedDuration::from_hours(100 * 365 * 24);

pub(crate) struct OrphanController;

impl Controller for OrphanController {
    const NAME: &'static str = "unmanaged-applied-work";
    type Primary = AppliedManifestWork;
    const PRIMARY_SITE: Site = Site::Spoke;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManifestWork>(|change, view| match (&change.old, &change.new) {
            (Some(_), Some(_)) | (None, None) => Vec::new(),
            // The first and the last work of a hub concern every applied work.
            (Some(_), None) | (None, Some(_)) => view.keys_on::<AppliedManifestWork>(Site::Spoke, Query::ALL),
        });
        watches.on_site::<ClusterClaim>(Site::Spoke, |change, view| {
            let claim = change.latest().filter(|claim| claim.name() == AGENT_CLAIM);
            claim.map(|_| view.keys_on::<AppliedManifestWork>(Site::Spoke, Query::ALL)).unwrap_or_default()
        });
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let Some(identity) = agent_identity::identity(view)? else { return Ok(Plan::nothing()) };
        let Some(applied) = view.get_on::<AppliedManifestWork>(Site::Spoke, key)? else {
            return Ok(Plan::nothing());
        };
        if !identity.has(&applied.spec) {
            return Ok(Plan::nothing());
        }
        let work = identity.work(applied.name());
        if applied.is_terminating() {
            // The work controller removes the objects of a work of this hub.
            let is_foreign = work.is_none();
            return Ok(if is_foreign {
                WorkOnSpoke::orphaned(identity, applied, view)?.plan(view)
            } else {
                Plan::nothing()
            });
        }
        let is_present = match &work {
            Some(work) => view.get::<ManifestWork>(work)?.is_some(),
            None => false,
        };
        if !is_present && applied.spec.agent_id != identity.agent_id {
            let adopted = json!({"spec": {"agentID": identity.agent_id}});
            let mut plan = Plan::nothing();
            plan.step([patch_applied(&applied, Subresource::None, fields(adopted))]);
            return Ok(plan);
        }
        let has_works = !view.list::<ManifestWork>(Query::namespace(&identity.cluster))?.is_empty();
        let claim = view.get_on::<ClusterClaim>(Site::Spoke, &Key::cluster(AGENT_CLAIM))?;
        let grace = agent_identity::eviction_grace(claim.as_deref());
        let stays = is_present || grace >= NEVER;
        Ok(evict(&applied, &Management { stays, has_works, grace }, now))
    }
}

/// The state of an applied work on the hub, and how long the agent waits for it.
struct Management {
    /// Whether the hub has the work, or the agent deletes none.
    stays: bool,
    /// Whether the hub has any work of the cluster.
    has_works: bool,
    grace: SignedDuration,
}

/// Marks, unmarks or deletes an applied work.
fn evict(applied: &Arc<AppliedManifestWork>, management: &Management, now: Timestamp) -> Plan {
    let Management { stays, has_works, grace } = *management;
    let mut plan = Plan::nothing();
    let since =
        applied.status.as_ref().and_then(|status| status.eviction_start_time.as_ref()).map(|time| time.0);
    let mark = |time: Option<Timestamp>| {
        let patch =
            json!({"status": {"evictionStartTime": time.map(|time| time.strftime("%FT%TZ").to_string())}});
        patch_applied(applied, Subresource::Status, fields(patch))
    };
    match since {
        None if stays => {}
        Some(_) if stays => plan.step([mark(None)]),
        None => plan.step([mark(Some(now))]),
        Some(since) => {
            let at = later(since, grace);
            if at > now {
                plan.wake(at);
            } else if has_works {
                plan.step([Action::delete(applied.as_ref()).on(Site::Spoke)]);
            }
        }
    }
    plan
}

#[cfg(test)]
#[path = "tests/orphan.rs"]
mod tests;
