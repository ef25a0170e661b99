//! Deletes AppliedManifestWorks whose work does not exist on the hub.
//!
//! Open Cluster Management calls these unmanaged applied works. For this agent's works, the controller records
//! when the work was first missed, which `kubectl get appliedmanifestworks` shows. It deletes an
//! AppliedManifestWork once the work has been missing for the agent's grace period (an hour by default) and the
//! hub confirms again that the work does not exist. A hub without any work for the cluster may have been restored
//! from a backup, so the controller then deletes nothing. See docs/hazards-clusters.md#restored-hub.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::work::{WorkOnSpoke, fields, patch_applied};
use crate::agent_identity::{self, AgentSettings};
use api::work::v1::{AppliedManifestWork, ManifestWork};
use object::duration::later;
use object::{Key, Metadata as _};
use reconcile::{Action, Controller, Index, Observes, Plan, Query, Read, Site, Subresource, View, Watches};

/// Nothing is marked or deleted from this grace period on, as in Open Cluster Management: 100 years.
const NEVER: SignedDuration = SignedDuration::from_hours(100 * 365 * 24);

/// Interval between checks that a work is still missing, and the maximum delay of a check.
const CHECK: SignedDuration = SignedDuration::from_mins(1);
const LATE: SignedDuration = SignedDuration::from_secs(30);

pub(crate) struct OrphanController;

impl Controller for OrphanController {
    const NAME: &'static str = "unmanaged-applied-work";
    type Primary = AppliedManifestWork;
    const PRIMARY_SITE: Site = Site::Spoke;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on::<ManifestWork>(|change, view| match (&change.old, &change.new) {
            (Some(_), Some(_)) | (None, None) => Vec::new(),
            (Some(work), None) | (None, Some(work)) => concerned(work, view),
        });
        watches.keep::<Absences>();
    }

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let Some(settings) = view.settings::<AgentSettings>() else { return Ok(Plan::nothing()) };
        let (identity, grace) = (&settings.identity, settings.eviction_grace);
        let Some(applied) = view.get_on::<AppliedManifestWork>(Site::Spoke, key)? else {
            view.index(|absences: &mut Absences| absences.observe(&key.name, None, now))?;
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
                WorkOnSpoke::orphaned(identity.clone(), applied, view)?.plan(view, now)
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
        let marked =
            applied.status.as_ref().and_then(|status| status.eviction_start_time.as_ref()).map(|time| time.0);
        let stays = is_present || grace >= NEVER;
        let mut counts = marked.filter(|_| !stays);
        // The hub may be in the middle of a restore. The grace period restarts with its first work.
        if counts.is_some() && view.list::<ManifestWork>(Query::namespace(&identity.cluster))?.is_empty() {
            counts = None;
        }
        let missed = view.index(|absences: &mut Absences| absences.observe(&key.name, counts, now))?;
        let mut plan = Plan::nothing();
        match (marked, missed) {
            (None, _) if stays => {}
            (Some(_), _) if stays => plan.step([mark(&applied, None)]),
            (None, _) => plan.step([mark(&applied, Some(now))]),
            (Some(_), None) => {}
            (Some(_), Some(missed)) if missed < grace => {
                plan.wake(later(now, CHECK.min(grace.saturating_sub(missed))));
            }
            (Some(_), Some(_)) => {
                match work.map_or(Ok(false), |work| view.is_on_hub::<ManifestWork>(&work)) {
                    Ok(false) => plan.step([Action::delete(applied.as_ref()).on(Site::Spoke)]),
                    Ok(true) | Err(_) => plan.wake(later(now, CHECK)),
                }
            }
        }
        Ok(plan)
    }
}

/// Returns the inventories that a new or deleted work affects. Its own inventory is included even if the
/// inventories cannot be listed. Inventories without a work depend on the first and last work of a hub, and those
/// that are being deleted may have objects that the work wants.
fn concerned(work: &ManifestWork, view: &impl View) -> Vec<Key> {
    let Some(identity) = agent_identity::identity(view) else { return Vec::new() };
    let is_concerned = |applied: &&Arc<AppliedManifestWork>| {
        let is_marked = applied.status.as_ref().is_some_and(|status| status.eviction_start_time.is_some());
        is_marked || applied.is_terminating()
    };
    let all = view.readable_on::<AppliedManifestWork>(Site::Spoke, Query::ALL);
    let others = all.iter().filter(is_concerned).map(|applied| Key::of(applied.as_ref()));
    others.chain([Key::cluster(identity.applied_name(work.name()))]).collect()
}

/// Sets or removes the time since which the work of an inventory has been missing.
fn mark(applied: &AppliedManifestWork, since: Option<Timestamp>) -> Action {
    let since = since.map(|time| time.strftime("%FT%TZ").to_string());
    patch_applied(applied, Subresource::Status, fields(json!({"status": {"evictionStartTime": since}})))
}

/// Missing works that this process has observed, by the name of the inventory.
#[derive(Default)]
struct Absences(BTreeMap<String, Absence>);

/// One observed absence of a work.
struct Absence {
    /// The time in the mark, which distinguishes absences.
    marked: Timestamp,
    checked: Timestamp,
    /// The time that the work has been missing.
    missed: SignedDuration,
}

impl Index for Absences {
    fn build(_: &impl View) -> Read<Self> {
        Ok(Self::default())
    }

    fn observes<O: Observes<Self>>(_: &mut O) {}
}

impl Absences {
    /// Returns how long this process has seen a work missing; `None` if it is not missing. An interval between
    /// checks that is too long does not count, because the process was stopped or the clock was set. See
    /// docs/hazards-clusters.md#clock-evicts.
    fn observe(&mut self, name: &str, marked: Option<Timestamp>, now: Timestamp) -> Option<SignedDuration> {
        let Some(marked) = marked else {
            self.0.remove(name);
            return None;
        };
        let begun = Absence { marked, checked: now, missed: SignedDuration::ZERO };
        let absence = match self.0.remove(name) {
            Some(known) if known.marked == marked => known,
            Some(_) | None => begun,
        };
        let passed = now.duration_since(absence.checked);
        let counts = !passed.is_negative() && passed <= CHECK.saturating_add(LATE);
        let missed = absence.missed.saturating_add(if counts { passed } else { SignedDuration::ZERO });
        self.0.insert(name.to_owned(), Absence { checked: now, missed, ..absence });
        Some(missed)
    }
}

#[cfg(test)]
#[path = "tests/orphan.rs"]
mod tests;
