//! Applies ManifestWorks to the spoke, reports their status, and removes objects that they no longer want.
//!
//! The inventory of a work is its AppliedManifestWork on the spoke. It lists an object from before its creation
//! until its deletion has been observed. An object belongs to a work if it has an owner reference with the uid of
//! that inventory; the controller never deletes an object without one.
//!
//! Kinds, objects and permissions are looked up individually. A change to any of them wakes the works that
//! requested it, including works that lost an object to another work.

mod decision;
mod plan;
mod pods;
mod removal;
mod status;

use jiff::Timestamp;

pub(super) use self::plan::{WorkOnSpoke, fields, patch_applied};
use crate::agent_identity;
use api::work::v1::{AppliedManifestWork, ManifestWork};
use object::{Key, Metadata as _};
use reconcile::{Controller, Executed, Plan, Read, Site, StatusWrite, View, Watches};

pub(crate) struct WorkController;

impl Controller for WorkController {
    const NAME: &'static str = "work-agent";
    type Primary = ManifestWork;
    // An absent work is left to the controller of unmanaged applied works, which waits for the hub.
    const USES_PERSISTED: bool = true;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on_site::<AppliedManifestWork>(Site::Spoke, |change, view| {
            let Some(identity) = agent_identity::identity(view) else { return Vec::new() };
            change.latest().and_then(|applied| identity.work(applied.name())).into_iter().collect()
        });
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let work = WorkOnSpoke::read(key, view)?;
        Ok(work.map_or_else(Plan::nothing, |work| work.plan(view, now)))
    }

    fn conclude(key: &Key, view: &impl View, done: &Executed, now: Timestamp) -> Read<Option<StatusWrite>> {
        let Some(on_spoke) = WorkOnSpoke::read(key, view)? else { return Ok(None) };
        let Some(work) = &on_spoke.work else { return Ok(None) };
        // The writes of the previous content say nothing about this one. See
        // docs/hazards-clusters.md#changed-while-applied.
        if work.metadata.generation != done.plan.generation {
            return Ok(None);
        }
        let Some(status) = on_spoke.status(view, done, now) else { return Ok(None) };
        Ok(StatusWrite::from_status(work.as_ref(), work.status.as_ref(), &status))
    }
}

#[cfg(test)]
#[path = "../tests/take_over.rs"]
mod take_over;
#[cfg(test)]
#[path = "../tests/work.rs"]
mod tests;
