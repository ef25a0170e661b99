//! The deletion of an add-on with pre-delete jobs on its cluster.
//!
//! A finalizer, set before the first work is written, keeps the add-on until its jobs complete. Its works and
//! permissions stay until then.

use jiff::Timestamp;

use super::deployment::AddOnDeployment;
use super::hosting;
use engine::addon::config_refs;
use engine::addon::hook::WaitReport;
use engine::addon::hosting::Host;
use engine::addon::live::{AddOnPart, JOB_FINALIZERS, Jobs, NeededFinalizers};
use reconcile::{Action, Event, EventType, Plan, StatusWrite};

impl AddOnDeployment {
    /// Adds the finalizers for pre-delete jobs and for works on another cluster, and removes unneeded ones; `None`
    /// if they are correct. The plan writes nothing else, because the write changes the resource version of the
    /// add-on.
    pub(super) fn hold(&self, parts: &[AddOnPart]) -> Option<Plan> {
        let NeededFinalizers { needed, unneeded } = self.live.finalizers(parts)?;
        let add = Action::add_finalizers(&*self.live.addon, &needed);
        let write = add.or_else(|| Action::remove_finalizers(&*self.live.addon, &unneeded))?;
        let mut plan = Plan::nothing();
        plan.step([write]);
        Some(plan)
    }

    /// Runs the jobs of an add-on that is being deleted. When they complete, deletes its works on other clusters
    /// and removes the finalizers.
    pub(super) fn finish(&self, now: Timestamp) -> Plan {
        let addon = &*self.live.addon;
        if !self.live.has_jobs() {
            return hosting::clean(&self.live, matches!(self.live.host, Host::Valid(_)), now);
        }
        let rendered = match &self.sources {
            Ok(Some(sources)) => self.parts(sources),
            Ok(None) if self.configs.iter().any(config_refs::is_template) => {
                Err("the snapshot of its template does not exist".to_owned())
            }
            Ok(None) => Ok(Vec::new()),
            Err(error) => Err(error.to_string()),
        };
        let mut plan = Plan::nothing();
        let is_accepted = self.cluster.spec.hub_accepts_client;
        let Jobs { writes, wait } = self.live.jobs(rendered.as_deref().map_err(String::as_str), is_accepted);
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
}
