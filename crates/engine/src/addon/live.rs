//! Compares an add-on on a cluster and its works on the hub with the works that it should have.
//!
//! The operator uses these rules to deploy template-based add-ons. The manager of a custom add-on uses the same
//! rules.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::config::Config;
use super::error::AddOnError;
use super::hook::{self, HookWait};
use super::hosting::{Divided, Host, Place, Target, WorksEnd, divide, end_works, hosting_cluster};
use super::works::{self, is_hosted};
use api::addon::v1alpha1::ManagedClusterAddOn;
use api::names::{
    ADDON_NAMESPACE_LABEL, ADDON_PRE_DELETE, HOSTING_CLEANUP_FINALIZER, HOSTING_PRE_DELETE_FINALIZER,
};
use api::work::v1::{ManifestWork, ManifestWorkSpec};
use object::{Key, Metadata as _, Object};

/// The finalizers of add-ons with pre-delete jobs.
pub const JOB_FINALIZERS: [&str; 2] = [ADDON_PRE_DELETE, HOSTING_PRE_DELETE_FINALIZER];

/// The desired works for one part of an add-on.
#[derive(Clone, Debug, PartialEq)]
pub struct AddOnPart {
    /// The part of the add-on.
    pub place: Place,
    /// The works that deploy the part.
    pub works: Vec<ManifestWork>,
    /// The work with the pre-delete jobs.
    pub hook: Option<ManifestWork>,
}

/// A work to write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkWrite<'a> {
    /// The desired work.
    pub wanted: &'a ManifestWork,
    /// The current work.
    pub live: Option<&'a ManifestWork>,
}

/// The writes that deploy an add-on.
#[derive(Clone, Debug, PartialEq)]
pub struct DeployWrites<'a> {
    /// The works that differ, in the steps in which to write them.
    pub steps: Vec<Vec<WorkWrite<'a>>>,
    /// The works that are no longer wanted. Delete them after the steps.
    pub surplus: Vec<&'a ManifestWork>,
}

/// The finalizers of an add-on, without finalizers of other owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeededFinalizers {
    /// The finalizers required for its jobs and for its works on another cluster.
    pub needed: Vec<&'static str>,
    /// The finalizers that are not required.
    pub unneeded: Vec<&'static str>,
}

/// The pre-delete jobs of an add-on.
#[derive(Clone, Debug, PartialEq)]
pub struct Jobs<'a> {
    /// The works with jobs to write.
    pub writes: Vec<WorkWrite<'a>>,
    /// The wait for the jobs; `None` if all are complete.
    pub wait: Option<HookWait>,
}

/// An add-on on a cluster, and its works on the hub.
#[derive(Clone, Debug)]
pub struct LiveAddOn {
    /// The add-on.
    pub addon: Arc<ManagedClusterAddOn>,
    /// The cluster that hosts a part of the add-on.
    pub host: Host,
    /// The works on the add-on's cluster.
    managed: Vec<Arc<ManifestWork>>,
    /// The works of the hosted part, on current and former hosting clusters.
    hosted: Vec<Arc<ManifestWork>>,
}

impl LiveAddOn {
    /// Returns the add-on with its works. `here` are works in its namespace that name it, and `elsewhere` are
    /// works that name its namespace.
    pub fn new(
        addon: Arc<ManagedClusterAddOn>,
        host: Host,
        here: Vec<Arc<ManifestWork>>,
        elsewhere: Vec<Arc<ManifestWork>>,
    ) -> Self {
        let key = Key::of(&*addon);
        let hook = Place::Managed.hook_name(&key);
        let is_managed =
            |work: &ManifestWork| works::is_deploy(&key, Place::Managed, work) || work.name() == hook;
        // A cluster can host its own add-on.
        let here = here.into_iter().filter(|work| work.label(ADDON_NAMESPACE_LABEL).is_none());
        let (managed, hosted): (Vec<_>, Vec<_>) = here.partition(|work| is_managed(work));
        let mut hosted: Vec<_> = elsewhere.into_iter().chain(hosted).collect();
        hosted.retain(|work| was_hosted(&addon, &host) && is_hosted(&key, work));
        Self { addon, host, managed, hosted }
    }

    /// Returns the desired works of the add-on, by target cluster. The hosted part comes first, and only if the
    /// hub can deploy to the hosting cluster.
    ///
    /// # Errors
    /// Returns the reason that no works can be built from the manifests, with OCM's message.
    pub fn parts(
        &self,
        manifests: Vec<Object>,
        configs: &[Config],
        author: &ManifestWorkSpec,
    ) -> Result<Vec<AddOnPart>, String> {
        let failed = |error: AddOnError| format!("failed to build manifestwork: {error}");
        let Divided { managed, hosting } = divide(manifests, self.host != Host::None).map_err(failed)?;
        let own = Target::managed(&self.addon, configs);
        let host = self.host.name().map(|cluster| Target { place: Place::Hosting, cluster, ..own });
        let parts = host.map(|host| (host, hosting)).into_iter().chain([(own, managed)]);
        let part = |(target, manifests): (Target<'_>, Vec<Object>)| {
            let (place, hook) = (target.place, hook::build(&target, &manifests, author));
            let works = works::build(&target, manifests, &self.works_at(place), author);
            Ok(AddOnPart { place, works: works.map_err(|error| failed(error.into()))?, hook })
        };
        parts.map(part).collect()
    }

    /// Returns the works that deploy the add-on, without works on former hosting clusters.
    pub fn works(&self) -> Vec<&ManifestWork> {
        Place::ALL.into_iter().flat_map(|place| self.works_at(place)).collect()
    }

    /// Returns the places without works that need none.
    pub fn empty(&self, parts: &[AddOnPart]) -> Vec<Place> {
        let is_wanted = |place| parts.iter().any(|part| part.place == place && !part.works.is_empty());
        let is_empty = |place: &Place| !is_wanted(*place) && self.works_at(*place).is_empty();
        Place::ALL.into_iter().filter(is_empty).collect()
    }

    /// Returns the works that deploy a part of the add-on, without works on former hosting clusters.
    pub fn works_at(&self, place: Place) -> Vec<&ManifestWork> {
        let key = Key::of(&*self.addon);
        self.all_at(place).filter(|work| works::is_deploy(&key, place, work)).collect()
    }

    /// Returns the work with the pre-delete jobs of a part of the add-on.
    pub fn hook_at(&self, place: Place) -> Option<&ManifestWork> {
        let name = place.hook_name(&Key::of(&*self.addon));
        self.all_at(place).find(|work| work.name() == name)
    }

    fn all_at(&self, place: Place) -> impl Iterator<Item = &ManifestWork> {
        let (works, cluster) = match place {
            Place::Managed => (&self.managed, Some(self.addon.namespace())),
            Place::Hosting => {
                (&self.hosted, hosting_cluster(&self.addon).filter(|_| self.host != Host::None))
            }
        };
        works.iter().map(Arc::as_ref).filter(move |work| Some(work.namespace()) == cluster)
    }

    /// Returns the required and unneeded finalizers; `None` while the hub cannot deploy to the hosting cluster.
    /// Changing finalizers changes the resource version of the add-on, so write them separately.
    pub fn finalizers(&self, parts: &[AddOnPart]) -> Option<NeededFinalizers> {
        if let Host::Invalid(_) = self.host {
            return None;
        }
        let has_jobs = |place| parts.iter().any(|part| part.place == place && part.hook.is_some());
        let deploys = |part: &AddOnPart| part.hook.is_some() || !part.works.is_empty();
        let is_deployed = parts.iter().any(|part| part.place == Place::Hosting && deploys(part));
        let needs = [
            (ADDON_PRE_DELETE, has_jobs(Place::Managed)),
            (HOSTING_PRE_DELETE_FINALIZER, has_jobs(Place::Hosting)),
            (HOSTING_CLEANUP_FINALIZER, is_deployed || !self.hosted.is_empty()),
        ];
        let of = |is_needed: bool| {
            let finalizers = needs.iter().filter(move |(_, needed)| *needed == is_needed);
            finalizers.map(|(finalizer, _)| *finalizer).collect()
        };
        Some(NeededFinalizers { needed: of(true), unneeded: of(false) })
    }

    /// Returns the writes that deploy these parts; `None` while the hub cannot deploy to the hosting cluster. In
    /// that case all works stay.
    pub fn writes<'a>(&'a self, parts: &'a [AddOnPart]) -> Option<DeployWrites<'a>> {
        if let Host::Invalid(_) = self.host {
            return None;
        }
        let steps = parts.iter().flat_map(|part| {
            let existing = self.works_at(part.place);
            let live =
                |wanted: &ManifestWork| existing.iter().find(|work| work.name() == wanted.name()).copied();
            let write = |wanted| WorkWrite { wanted, live: live(wanted) };
            works::to_write(&part.works, live).map(|step| step.into_iter().map(write).collect())
        });
        let wanted: BTreeSet<Key> = parts.iter().flat_map(|part| &part.works).map(Key::of).collect();
        let hook = Place::Managed.hook_name(&Key::of(&*self.addon));
        let is_surplus = |work: &&ManifestWork| {
            !work.is_terminating() && work.name() != hook && !wanted.contains(&Key::of(*work))
        };
        let works = self.managed.iter().chain(&self.hosted).map(Arc::as_ref);
        Some(DeployWrites { steps: steps.collect(), surplus: works.filter(is_surplus).collect() })
    }

    /// Returns true if pre-delete jobs block the deletion of the add-on.
    pub fn has_jobs(&self) -> bool {
        JOB_FINALIZERS.iter().any(|finalizer| self.addon.has_finalizer(finalizer))
    }

    /// Returns the jobs of an add-on that is being deleted. `parts` contains them, or the reason that they are
    /// unknown. A cluster that the hub does not accept (`is_accepted`) gets no jobs.
    pub fn jobs<'a>(&'a self, parts: Result<&'a [AddOnPart], &str>, is_accepted: bool) -> Jobs<'a> {
        let parts = match parts {
            Ok(parts) => parts,
            Err(error) if is_accepted => {
                let wait = HookWait::new(&Key::of(&*self.addon), Place::Managed, error);
                return Jobs { writes: Vec::new(), wait: Some(wait) };
            }
            Err(_) => &[],
        };
        let wait = |part: &'a AddOnPart| {
            let is_skipped = part.place == Place::Managed && !is_accepted;
            if is_skipped || !self.addon.has_finalizer(part.place.hook_finalizer()) {
                return None;
            }
            let write = WorkWrite { wanted: part.hook.as_ref()?, live: self.hook_at(part.place) };
            let wait = hook::wait(&Key::of(&*self.addon), part.place, write.wanted, write.live)?;
            Some((write, wait))
        };
        let waits: Vec<(WorkWrite<'_>, HookWait)> = parts.iter().filter_map(wait).collect();
        let first = waits.iter().find(|(_, wait)| wait.has_failed).or(waits.first());
        let first = first.map(|(_, wait)| wait.clone());
        let unwritten = waits.into_iter().filter(|(_, wait)| wait.is_unwritten);
        Jobs { writes: unwritten.map(|(write, _)| write).collect(), wait: first }
    }

    /// Returns the removal of the works on hosting clusters when the add-on is deleted. `has_agent` is true if
    /// an agent can still remove them.
    pub fn end_hosted(&self, has_agent: bool, now: Timestamp) -> WorksEnd<'_> {
        end_works(&self.hosted, has_agent, now)
    }
}

/// Returns true if another cluster hosts or hosted a part of an add-on.
pub fn was_hosted(addon: &ManagedClusterAddOn, host: &Host) -> bool {
    *host != Host::None || addon.has_finalizer(HOSTING_CLEANUP_FINALIZER)
}

/// Returns the works left behind by a deleted add-on: works in its namespace that name it (`here`), and works
/// that name its namespace (`elsewhere`).
pub fn leftovers(
    addon: &Key,
    here: Vec<Arc<ManifestWork>>,
    elsewhere: Vec<Arc<ManifestWork>>,
) -> Vec<Arc<ManifestWork>> {
    let here = here.into_iter().filter(|work| works::is_controlled_by(addon, work));
    // A person may have removed the finalizer that cleans up hosted works with the add-on.
    let is_left = |work: &ManifestWork| work.namespace() != addon.namespace && is_hosted(addon, work);
    here.chain(elsewhere.into_iter().filter(|work| is_left(work))).collect()
}

#[cfg(test)]
mod tests;
