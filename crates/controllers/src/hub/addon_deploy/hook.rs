//! The deletion of an add-on that has jobs to run on its cluster first.
//!
//! A finalizer holds the add-on from before its first work until its jobs are complete. Its works and its
//! permissions stay until then.

use jiff::{SignedDuration, Timestamp};

use super::deployment::Deployment;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::condition::ConditionStatus::False;
use api::condition::{Observation, set_condition};
use api::names::ADDON_PRE_DELETE;
use api::names::addon_conditions::HOOK_MANIFEST_COMPLETED;
use api::work::v1::ManifestWork;
use engine::addon::hook::OpenJob;
use engine::addon::{config_refs, hook, works};
use object::{Key, Metadata as _, ObjectRef};
use reconcile::{Action, Event, EventType, Plan, StatusWrite};

/// Time limit of the jobs, after which an event reports them.
const HOOK_TIMEOUT: SignedDuration = SignedDuration::from_mins(10);

/// The state of the hooks that the deletion of an add-on waits for.
#[derive(Default)]
struct HookWait {
    /// The writes that bring the wait nearer to its end.
    writes: Vec<Action>,
    /// The reason, for people.
    why: String,
    /// Whether a job failed, so that the wait does not end by itself.
    has_failed: bool,
}

impl HookWait {
    fn of(job: &OpenJob) -> Self {
        Self { why: job.to_string(), has_failed: job.failure.is_some(), ..Self::default() }
    }
}

impl Deployment {
    /// Adds the finalizer to an add-on with jobs to run before its deletion, and removes it from one without;
    /// `None` if that is done already. The plan writes nothing else, because the write changes the version of
    /// the add-on.
    pub(super) fn hold(&self, has_hook: bool) -> Option<Plan> {
        let write = if has_hook {
            Action::add_finalizers(&*self.addon, &[ADDON_PRE_DELETE])
        } else {
            Action::remove_finalizers(&*self.addon, &[ADDON_PRE_DELETE])
        };
        write.map(|write| {
            let mut plan = Plan::nothing();
            plan.step([write]);
            plan
        })
    }

    /// Runs the jobs of an add-on that is being deleted, and removes the finalizer when they are complete. A
    /// cluster that the hub does not accept gets no jobs.
    pub(super) fn finish(&self, now: Timestamp) -> Plan {
        let rendered = match &self.sources {
            Ok(Some(sources)) => self.render(sources),
            Ok(None) if self.has_template && self.configs.iter().any(config_refs::is_template) => {
                Err("the snapshot of its template does not exist".to_owned())
            }
            Ok(None) => Ok(Vec::new()),
            Err(error) => Err(error.clone()),
        };
        match rendered.map(|manifests| hook::build(&self.addon, &manifests)) {
            Ok(None) => release(&self.addon),
            Ok(Some(_)) | Err(_) if !self.cluster.spec.hub_accepts_client => release(&self.addon),
            Ok(Some(wanted)) => self.run(&wanted, now),
            Err(why) => self.wait(HookWait { why, ..HookWait::default() }, now),
        }
    }

    /// Runs the jobs, and removes the finalizer when they are complete.
    fn run(&self, wanted: &ManifestWork, now: Timestamp) -> Plan {
        let live = self.hook.as_deref().filter(|live| works::is_as_wanted(live, wanted));
        match live.map(hook::unfinished).as_deref() {
            Some([]) => release(&self.addon),
            Some([first, ..]) => self.wait(HookWait::of(first), now),
            None => {
                let write = Action::apply_unchanged(wanted, self.hook.as_deref());
                let why = "it has just been written".to_owned();
                self.wait(HookWait { writes: vec![write], why, has_failed: false }, now)
            }
        }
    }

    /// Says what the deletion waits for, and how a person can skip the wait. An event says so after the time
    /// limit, and at once when a job failed, because a failed job never completes.
    fn wait(&self, wait: HookWait, now: Timestamp) -> Plan {
        let HookWait { writes, why, has_failed } = wait;
        let mut plan = Plan::nothing();
        plan.step(writes);
        let work = hook::name(self.name());
        let message = format!(
            "hook manifestWork {work} is not completed: {why}. To delete the add-on without it, remove the finalizer {ADDON_PRE_DELETE}."
        );
        let mut new = ManagedClusterAddOn::clone(&self.addon);
        let open = Observation::new(HOOK_MANIFEST_COMPLETED, False, "HookManifestIsNotCompleted");
        set_condition(&mut new.status.get_or_insert_default().conditions, open.message(message.clone()), now);
        plan.status = StatusWrite::between(self.addon.as_ref(), &new);
        let deleted = self.addon.metadata.deletion_timestamp.as_ref().map_or(now, |deleted| deleted.0);
        let until = deleted.saturating_add(HOOK_TIMEOUT).unwrap_or(Timestamp::MAX);
        if until > now && !has_failed {
            plan.wake(until);
        } else {
            plan.events.push(Event {
                regarding: ObjectRef::of::<ManagedClusterAddOn>(Key::of(&*self.addon)),
                uid: self.addon.uid().to_owned(),
                related: None,
                event_type: EventType::Warning,
                reason: if has_failed { "HookFailed".into() } else { "HookNotCompleted".into() },
                action: "Delete".into(),
                message,
            });
        }
        plan
    }
}

/// Removes the finalizer of an add-on.
pub(super) fn release(addon: &ManagedClusterAddOn) -> Plan {
    let mut plan = Plan::nothing();
    plan.step(Action::remove_finalizers(addon, &[ADDON_PRE_DELETE]));
    plan
}
