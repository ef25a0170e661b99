//! The deletion of an add-on with jobs that run on its clusters first, and with works on another cluster.

use jiff::Timestamp;

use super::deploy::{Deployment, Part};
use super::hosting;
use crate::AddOn;
use crate::config::Assigned;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::condition::set_condition;
use api::names::{ADDON_PRE_DELETE, HOSTING_PRE_DELETE_FINALIZER};
use engine::addon::hook::{self, HookWait, WaitReport};
use engine::addon::hosting::{FINALIZERS, Host, Place};
use object::{Key, Metadata as _};
use reconcile::{Action, Event, EventType, Plan, StatusWrite};

/// The finalizers of add-ons with jobs.
const JOB_FINALIZERS: [&str; 2] = [ADDON_PRE_DELETE, HOSTING_PRE_DELETE_FINALIZER];

impl<A: AddOn> Deployment<A> {
    /// Runs the jobs, with the configuration that the hub has now: no rollout assigns a deleted add-on
    /// another one. When they are complete, deletes the works on other clusters and removes the finalizers.
    /// The garbage collector deletes the other works and the permissions of the add-on after it.
    pub(super) fn finish(&self, now: Timestamp) -> Plan {
        let mut plan = Plan::nothing();
        if !FINALIZERS.iter().any(|finalizer| self.addon.has_finalizer(finalizer)) {
            return plan;
        }
        if !JOB_FINALIZERS.iter().any(|finalizer| self.addon.has_finalizer(finalizer)) {
            return hosting::clean(&self.addon, &self.hosted, matches!(self.host, Host::Valid(_)), now);
        }
        let made = match &self.config {
            Assigned::Waits => Err("its configuration is missing".to_owned()),
            Assigned::Content(config) => {
                let mut unused = ManagedClusterAddOn::clone(&self.addon);
                self.make(&mut unused, config)
            }
        };
        let parts = match made.or_else(|why| self.written_jobs().ok_or(why)) {
            Ok(parts) => parts,
            Err(why) if self.cluster.spec.hub_accepts_client => {
                self.report_wait(
                    &mut plan,
                    &HookWait::new(&Key::of(&*self.addon), Place::Managed, &why),
                    now,
                );
                return plan;
            }
            Err(_) => Vec::new(),
        };
        let waits: Vec<(&Part, HookWait)> =
            parts.iter().filter_map(|part| Some((part, self.wait_for(part)?))).collect();
        let unwritten = waits.iter().filter(|(_, wait)| wait.is_unwritten);
        let hooks = unwritten.filter_map(|(part, _)| Some((part.place, part.hook.as_ref()?)));
        plan.step(hooks.map(|(place, hook)| Action::apply_unchanged(hook, self.hook_at(place))));
        match waits.iter().find(|(_, wait)| wait.has_failed).or(waits.first()) {
            Some((_, wait)) => self.report_wait(&mut plan, wait, now),
            None => plan.step(Action::remove_finalizers(&*self.addon, &JOB_FINALIZERS)),
        }
        plan
    }

    /// Returns the parts with the jobs that run already; `None` where a part has jobs that were not written.
    fn written_jobs(&self) -> Option<Vec<Part>> {
        let places = [Place::Managed, Place::Hosting].into_iter();
        let held = places.filter(|place| self.addon.has_finalizer(place.hook_finalizer()));
        let part = |place| {
            let hook = self.hook_at(place)?.clone();
            Some(Part { place, works: Vec::new(), hook: Some(hook) })
        };
        held.map(part).collect()
    }

    /// Returns the wait for the jobs of a part of the add-on; `None` if there is nothing to wait for. A
    /// cluster that the hub does not accept gets no jobs.
    fn wait_for(&self, part: &Part) -> Option<HookWait> {
        let is_skipped = part.place == Place::Managed && !self.cluster.spec.hub_accepts_client;
        if is_skipped || !self.addon.has_finalizer(part.place.hook_finalizer()) {
            return None;
        }
        hook::wait(&Key::of(&*self.addon), part.place, part.hook.as_ref()?, self.hook_at(part.place))
    }

    /// Says what the deletion waits for.
    fn report_wait(&self, plan: &mut Plan, wait: &HookWait, now: Timestamp) {
        let WaitReport { condition, event, until } = wait.report(&self.addon, now);
        if event.is_none() {
            plan.wake(until);
        }
        let warn =
            |reason| Event::new(&*self.addon, EventType::Warning, reason, "Delete", &condition.message);
        let events = event.map(warn).into_iter().collect();
        let mut new = ManagedClusterAddOn::clone(&self.addon);
        set_condition(&mut new.status.get_or_insert_default().conditions, condition, now);
        let write = StatusWrite::between(self.addon.as_ref(), &new);
        plan.status = write.map(|write| StatusWrite { events, ..write });
    }
}

#[cfg(test)]
#[path = "tests/deletion.rs"]
mod tests;
