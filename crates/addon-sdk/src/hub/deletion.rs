//! Deletes an add-on: runs its pre-delete jobs and removes its works on other clusters.

use jiff::Timestamp;

use super::deployment::AddOnDeployment;
use crate::AddOn;
use crate::config::Assigned;
use engine::addon::hosting::{FINALIZERS, Place};
use engine::addon::live::AddOnPart;
use object::Metadata as _;
use reconcile::Plan;

impl<A: AddOn> AddOnDeployment<A> {
    /// Runs the jobs and removes the finalizers. The works on the add-on's cluster and the permissions are removed
    /// after the add-on.
    pub(super) fn finish(&self, now: Timestamp) -> Plan {
        if !FINALIZERS.iter().any(|finalizer| self.live.addon.has_finalizer(finalizer)) {
            return Plan::nothing();
        }
        let is_accepted = self.cluster.spec.hub_accepts_client;
        addon_lifecycle::finish(&self.live, is_accepted, || self.jobs(), now)
    }

    /// Returns the parts of the add-on with its jobs from the current configuration on the hub, because no rollout
    /// assigns a new one to a deleted add-on.
    fn jobs(&self) -> Result<Vec<AddOnPart>, String> {
        let made = match &self.config {
            Assigned::Waits => Err("its configuration is missing".to_owned()),
            Assigned::Content(config) => {
                let mut unused = self.live.addon.as_ref().clone();
                self.make(&mut unused, config)
            }
        };
        made.or_else(|error| self.written_jobs().ok_or(error))
    }

    /// Returns the parts whose jobs already run; `None` if the jobs of a part have not been written.
    fn written_jobs(&self) -> Option<Vec<AddOnPart>> {
        let with_jobs =
            Place::ALL.into_iter().filter(|place| self.live.addon.has_finalizer(place.hook_finalizer()));
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
