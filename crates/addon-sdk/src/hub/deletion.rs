//! Deletes an add-on: runs its pre-delete jobs and removes its works on other clusters.

use jiff::Timestamp;

use super::deployment::AddOnDeployment;
use super::hosting;
use crate::AddOn;
use crate::config::Assigned;
use engine::addon::hook::WaitReport;
use engine::addon::hosting::{FINALIZERS, Host, Place};
use engine::addon::live::{AddOnPart, JOB_FINALIZERS, Jobs};
use object::Metadata as _;
use reconcile::{Action, Event, EventType, Plan, StatusWrite};

impl<A: AddOn> AddOnDeployment<A> {
    /// Runs the jobs with the current configuration on the hub, because no rollout assigns a new one to a deleted
    /// add-on. When they complete, deletes the works on other clusters and removes the finalizers. The other works
    /// and the permissions are removed after the add-on.
    pub(super) fn finish(&self, now: Timestamp) -> Plan {
        let mut plan = Plan::nothing();
        let addon = &*self.live.addon;
        if !FINALIZERS.iter().any(|finalizer| addon.has_finalizer(finalizer)) {
            return plan;
        }
        if !self.live.has_jobs() {
            return hosting::clean(&self.live, matches!(self.live.host, Host::Valid(_)), now);
        }
        let made = match &self.config {
            Assigned::Waits => Err("its configuration is missing".to_owned()),
            Assigned::Content(config) => {
                let mut unused = addon.clone();
                self.make(&mut unused, config)
            }
        };
        let parts = made.or_else(|error| self.written_jobs().ok_or(error));
        let is_accepted = self.cluster.spec.hub_accepts_client;
        let Jobs { writes, wait } = self.live.jobs(parts.as_deref().map_err(String::as_str), is_accepted);
        plan.step(writes.into_iter().map(|work| Action::apply_unchanged(work.wanted, work.live)));
        let Some(wait) = wait else {
            plan.step(Action::remove_finalizers(addon, &JOB_FINALIZERS));
            return plan;
        };
        let WaitReport { reported, warning, wake } = wait.report(addon, now);
        plan.wake_at = wake;
        let warn = |(reason, message)| Event::new(addon, EventType::Warning, reason, "Delete", message);
        let events = warning.map(warn).into_iter().collect();
        plan.status = StatusWrite::between(addon, &reported).map(|write| write.with_events(events));
        plan
    }

    /// Returns the parts whose jobs already run; `None` if the jobs of a part have not been written.
    fn written_jobs(&self) -> Option<Vec<AddOnPart>> {
        let places = [Place::Managed, Place::Hosting].into_iter();
        let with_jobs = places.filter(|place| self.live.addon.has_finalizer(place.hook_finalizer()));
        let part = |place| {
            let hook = self.live.hook_at(place)?.clone();
            Some(AddOnPart { place, works: Vec::new(), hook: Some(hook) })
        };
        with_jobs.map(part).collect()
    }
}

#[cfg(test)]
#[path = "tests/deletion.rs"]
mod tests;
