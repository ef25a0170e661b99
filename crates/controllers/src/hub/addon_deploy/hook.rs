//! The deletion of an add-on that has jobs to run on its cluster first.
//!
//! A finalizer holds the add-on from before its first work until its jobs are complete. Its works and its
//! permissions stay until then.

use jiff::Timestamp;

use super::deployment::{Deployment, Part};
use super::hosting;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::condition::set_condition;
use api::names::{ADDON_PRE_DELETE, HOSTING_CLEANUP_FINALIZER, HOSTING_PRE_DELETE_FINALIZER};
use engine::addon::config_refs;
use engine::addon::hook::{self, HookWait, WaitReport};
use engine::addon::hosting::{Host, Place};
use object::{Key, Metadata as _};
use reconcile::{Action, Event, EventType, Plan, StatusWrite};

/// The finalizers of add-ons with jobs.
const JOB_FINALIZERS: [&str; 2] = [ADDON_PRE_DELETE, HOSTING_PRE_DELETE_FINALIZER];

impl Deployment {
    /// Adds the finalizers that an add-on needs for its jobs and for its works on another cluster, and
    /// removes those that it does not need; `None` if that is done already. The plan writes nothing else,
    /// because the write changes the version of the add-on.
    pub(super) fn hold(&self, parts: &[Part]) -> Option<Plan> {
        if let Host::Invalid(_) = self.host {
            return None;
        }
        let has_jobs = |place| parts.iter().any(|part| part.place == place && part.hook.is_some());
        let is_host = |part: &&Part| part.place == Place::Hosting;
        let deploys = |part: &Part| part.hook.is_some() || !part.works.is_empty();
        let has_works = !self.hosted.is_empty() || parts.iter().find(is_host).is_some_and(deploys);
        let needs = [
            (ADDON_PRE_DELETE, has_jobs(Place::Managed)),
            (HOSTING_PRE_DELETE_FINALIZER, has_jobs(Place::Hosting)),
            (HOSTING_CLEANUP_FINALIZER, has_works),
        ];
        let of = |is_needed: bool| {
            let finalizers = needs.iter().filter(move |(_, needed)| *needed == is_needed);
            finalizers.map(|(finalizer, _)| *finalizer).collect::<Vec<_>>()
        };
        let add = Action::add_finalizers(&*self.addon, &of(true));
        let write = add.or_else(|| Action::remove_finalizers(&*self.addon, &of(false)))?;
        let mut plan = Plan::nothing();
        plan.step([write]);
        Some(plan)
    }

    /// Runs the jobs of an add-on that is being deleted. When they are complete, deletes its works on other
    /// clusters and removes the finalizers.
    pub(super) fn finish(&self, now: Timestamp) -> Plan {
        if !JOB_FINALIZERS.iter().any(|finalizer| self.addon.has_finalizer(finalizer)) {
            let waits = matches!(self.host, Host::Valid(_));
            return hosting::clean(&self.addon, &self.hosted, waits, now);
        }
        let rendered = match &self.sources {
            Ok(Some(sources)) => self.parts(sources),
            Ok(None) if self.configs.iter().any(config_refs::is_template) => {
                Err("the snapshot of its template does not exist".to_owned())
            }
            Ok(None) => Ok(Vec::new()),
            Err(error) => Err(error.clone()),
        };
        let mut plan = Plan::nothing();
        match rendered {
            Ok(parts) => {
                let waits: Vec<_> =
                    parts.iter().filter_map(|part| Some((part, self.wait_for(part)?))).collect();
                let unwritten = waits.iter().filter(|(_, wait)| wait.is_unwritten);
                let unwritten = unwritten.filter_map(|(part, _)| Some((part.place, part.hook.as_ref()?)));
                plan.step(unwritten.map(|(place, hook)| Action::apply_unchanged(hook, self.hook_at(place))));
                let first = waits.iter().find(|(_, wait)| wait.has_failed).or(waits.first());
                match first {
                    Some((_, wait)) => self.report_wait(&mut plan, wait, now),
                    None => plan.step(Action::remove_finalizers(&*self.addon, &JOB_FINALIZERS)),
                }
            }
            Err(why) if self.cluster.spec.hub_accepts_client => {
                let wait = HookWait::new(&Key::of(&*self.addon), Place::Managed, &why);
                self.report_wait(&mut plan, &wait, now);
            }
            Err(_) => plan.step(Action::remove_finalizers(&*self.addon, &JOB_FINALIZERS)),
        }
        plan
    }

    /// Returns the wait for the jobs of a part of the add-on; `None` if there is nothing to wait for. A
    /// cluster that the hub does not accept gets no jobs.
    fn wait_for(&self, part: &Part) -> Option<HookWait> {
        let Part { place, works: _, hook } = part;
        let is_skipped = match place {
            Place::Managed => !self.cluster.spec.hub_accepts_client,
            Place::Hosting => false,
        };
        if is_skipped || !self.addon.has_finalizer(place.hook_finalizer()) {
            return None;
        }
        hook::wait(&Key::of(&*self.addon), *place, hook.as_ref()?, self.hook_at(*place))
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
