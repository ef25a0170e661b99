//! The deletion of an add-on with jobs that run on its cluster first.

use jiff::Timestamp;

use super::deploy::Deployment;
use crate::AddOn;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::condition::ConditionStatus::False;
use api::condition::{Observation, set_condition};
use api::names::ADDON_PRE_DELETE;
use api::names::addon_conditions::HOOK_MANIFEST_COMPLETED;
use engine::addon::{hook, works};
use object::Metadata as _;
use reconcile::{Action, Plan, StatusWrite};

impl<A: AddOn> Deployment<A> {
    /// Runs the jobs, and removes the finalizer when they are complete. The garbage collector deletes the works
    /// and the permissions of the add-on after it.
    pub(super) fn finish(&self, now: Timestamp) -> Plan {
        if !self.addon.has_finalizer(ADDON_PRE_DELETE) {
            return Plan::nothing();
        }
        let wanted = match self.hook() {
            Ok(None) => return self.release(),
            Ok(Some(_)) | Err(_) if !self.cluster.spec.hub_accepts_client => return self.release(),
            Ok(Some(wanted)) => wanted,
            Err(why) => return self.wait(&why, None, now),
        };
        let live = self.hook.as_ref().filter(|live| works::is_as_wanted(live, &wanted));
        match live.map(|live| hook::unfinished(live)).as_deref() {
            Some([]) => self.release(),
            Some([first, ..]) => self.wait(&first.to_string(), None, now),
            None => self.wait(
                "it has just been written",
                Some(Action::apply_unchanged(&wanted, self.hook.as_deref())),
                now,
            ),
        }
    }

    /// Says what the deletion waits for, and how a person can skip the wait.
    fn wait(&self, why: &str, write: Option<Action>, now: Timestamp) -> Plan {
        let mut plan = Plan::nothing();
        plan.step(write);
        let message = format!(
            "hook manifestWork {} is not completed: {why}. To delete the add-on without it, remove the finalizer {ADDON_PRE_DELETE}.",
            hook::name(A::NAME)
        );
        let mut new = ManagedClusterAddOn::clone(&self.addon);
        let open = Observation::new(HOOK_MANIFEST_COMPLETED, False, "HookManifestIsNotCompleted");
        set_condition(&mut new.status.get_or_insert_default().conditions, open.message(message), now);
        plan.status = StatusWrite::between(self.addon.as_ref(), &new);
        plan
    }

    fn release(&self) -> Plan {
        let mut plan = Plan::nothing();
        plan.step(Action::remove_finalizers(&*self.addon, &[ADDON_PRE_DELETE]));
        plan
    }
}
