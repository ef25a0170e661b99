//! The deletion of an add-on with jobs that run on its cluster first.

use jiff::Timestamp;

use super::deploy::Deployment;
use crate::AddOn;
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::condition::set_condition;
use api::names::ADDON_PRE_DELETE;
use engine::addon::hook::{self, HookWait};
use engine::addon::hosting::Place;
use object::{Key, Metadata as _};
use reconcile::{Action, Plan, StatusWrite};

impl<A: AddOn> Deployment<A> {
    /// Runs the jobs, and removes the finalizer when they are complete. The garbage collector deletes the
    /// works and the permissions of the add-on after it.
    pub(super) fn finish(&self, now: Timestamp) -> Plan {
        let mut plan = Plan::nothing();
        if !self.addon.has_finalizer(ADDON_PRE_DELETE) {
            return plan;
        }
        let addon = Key::of(&*self.addon);
        let (wait, wanted) = match self.hook() {
            Ok(None) => (None, None),
            Ok(Some(_)) | Err(_) if !self.cluster.spec.hub_accepts_client => (None, None),
            Ok(Some(wanted)) => {
                (hook::wait(&addon, Place::Managed, &wanted, self.hook.as_deref()), Some(wanted))
            }
            Err(why) => (Some(HookWait::new(&addon, Place::Managed, &why)), None),
        };
        let Some(wait) = wait else {
            plan.step(Action::remove_finalizers(&*self.addon, &[ADDON_PRE_DELETE]));
            return plan;
        };
        let unwritten = wanted.filter(|_| wait.is_unwritten);
        plan.step(unwritten.map(|hook| Action::apply_unchanged(&hook, self.hook.as_deref())));
        let mut new = ManagedClusterAddOn::clone(&self.addon);
        set_condition(&mut new.status.get_or_insert_default().conditions, wait.condition(), now);
        plan.status = StatusWrite::between(self.addon.as_ref(), &new);
        plan
    }
}
