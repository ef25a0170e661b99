//! The writes of a work: its inventory, its objects, and their removal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Map, Value, json};

use super::decision::{self, ManifestDecision, served};
use crate::agent_identity::{self, AgentIdentity, AgentSettings};
use api::condition::Conditions as _;
use api::names::{APPLIED_WORK_FINALIZER, SEALED_KEYS_ANNOTATION, WORK_FINALIZER, work_conditions};
use api::work::v1::{AppliedManifestWork, AppliedManifestWorkSpec, AppliedResource, ManifestWork};
use engine::order::{needs_its_controller, spoke_rank};
use engine::work::{ApplyDecision, Executor, Served, Wanted, inventory, read, stays};
use object::duration::later;
use object::{Key, Metadata as _, Object, ObjectRef};
use reconcile::{Action, Plan, Precondition, Read, Site, Subresource, View};

/// Maximum time for which the deletion of a work deletes only its custom objects.
const ORDERED_FOR: SignedDuration = SignedDuration::from_mins(5);

/// Returns the manifests of a work, with the decrypted values of its Secrets.
fn wanted(work: &ManifestWork, view: &impl View) -> Vec<Wanted> {
    let manifests = &work.spec.workload.manifests;
    if !seal::has_sealed(manifests) {
        return read(work, |gvk| served(gvk, view));
    }
    let settings = view.settings::<AgentSettings>();
    let identities = settings.as_ref().map(|settings| settings.sealing.as_slice()).unwrap_or_default();
    let mut work = work.clone();
    let (key, keys) = (Key::of(&work), work.annotation(SEALED_KEYS_ANNOTATION).map(str::to_owned));
    let refused = seal::open(&key, keys.as_deref(), &mut work.spec.workload.manifests, identities);
    let mut wanted = read(&work, |gvk| served(gvk, view));
    for (wanted, reason) in wanted.iter_mut().zip(refused) {
        wanted.unreadable = reason;
    }
    wanted
}

/// A work, and its objects on the spoke.
pub(in crate::agent) struct WorkOnSpoke {
    pub(super) identity: AgentIdentity,
    pub(super) key: Key,
    pub(super) work: Option<Arc<ManifestWork>>,
    pub(super) applied: Option<Arc<AppliedManifestWork>>,
    pub(super) wanted: Vec<Wanted>,
    /// The recorded inventory, as read.
    pub(super) before: Vec<AppliedResource>,
}

impl WorkOnSpoke {
    pub(super) fn read(key: &Key, view: &impl View) -> Read<Option<Self>> {
        let Some(identity) = agent_identity::identity(view) else { return Ok(None) };
        let work = view.get::<ManifestWork>(key)?;
        let applied =
            view.get_on::<AppliedManifestWork>(Site::Spoke, &Key::cluster(identity.applied_name(&key.name)))?;
        let wanted = work.as_deref().map(|work| wanted(work, view)).unwrap_or_default();
        let before = applied.as_deref().map(recorded).unwrap_or_default();
        Ok(Some(Self { identity, key: key.clone(), work, applied, wanted, before }))
    }

    /// Returns the objects on the spoke for a work that the hub does not have. The hub's work with the same name
    /// may want some of them: after a change of the hub's URL, it is the same work.
    pub(in crate::agent) fn orphaned(
        identity: AgentIdentity,
        applied: Arc<AppliedManifestWork>,
        view: &impl View,
    ) -> Read<Self> {
        let before = recorded(&applied);
        let key = Key::namespaced(&identity.cluster, &applied.spec.manifest_work_name);
        let heir = view.get::<ManifestWork>(&key)?.filter(|work| !work.is_terminating());
        let mut wanted = heir.map(|work| wanted(&work, view)).unwrap_or_default();
        // Leave the wanted objects to that work. See docs/hazards-clusters.md#rotated-hub.
        wanted.iter_mut().for_each(|wanted| wanted.owned = false);
        Ok(Self { identity, key, work: None, applied: Some(applied), wanted, before })
    }

    /// Returns the executor of the work. If the hub does not have the work, the agent itself removes the objects.
    pub(super) fn executor(&self) -> Executor {
        Executor::from_spec(self.work.as_ref().and_then(|work| work.spec.executor.as_ref()))
    }

    pub(super) fn owner(&self) -> Option<OwnerReference> {
        self.applied.as_ref().map(|applied| applied.owner_reference())
    }

    pub(in crate::agent) fn plan(&self, view: &impl View, now: Timestamp) -> Plan {
        let generation = self.work.as_ref().and_then(|work| work.metadata.generation);
        let mut plan = Plan { generation, ..Plan::default() };
        match (&self.work, &self.applied) {
            (_, Some(applied)) if applied.is_terminating() => self.tear_down(&mut plan, applied, view, now),
            (Some(work), Some(applied)) if work.is_terminating() => {
                plan.step([Action::delete(applied.as_ref()).on(Site::Spoke)]);
            }
            (Some(work), None) if work.is_terminating() => {
                plan.step(Action::remove_finalizers(work.as_ref(), &[WORK_FINALIZER]));
            }
            (Some(work), None) => {
                plan.step(Action::add_finalizers(work.as_ref(), &[WORK_FINALIZER]));
                let applied = Object::from_typed(&self.new_applied(work));
                plan.step([Action::create(applied).on(Site::Spoke)]);
                // Request the lookups now, so that the next plan has the answers when it applies.
                self.wanted.iter().for_each(|wanted| drop(decision::read(wanted, view)));
            }
            (Some(work), Some(applied)) => {
                plan.step(Action::add_finalizers(work.as_ref(), &[WORK_FINALIZER]));
                plan.step(self.adopt(work, applied));
                self.apply(&mut plan, work, applied, view);
            }
            // Left to the controller of orphaned works.
            (None, _) => {}
        }
        plan
    }

    /// Adopts the inventory of an agent with another id, and copies the labels of the work to it.
    fn adopt(&self, work: &ManifestWork, applied: &AppliedManifestWork) -> Option<Action> {
        let state = |labels: &Option<BTreeMap<String, String>>, agent: &str| json!({"metadata": {"labels": labels.clone().unwrap_or_default()}, "spec": {"agentID": agent}});
        let before = state(&applied.metadata.labels, &applied.spec.agent_id);
        let after = state(&work.metadata.labels, &self.identity.agent_id);
        let patch = object::merge_diff(&before, &after)?;
        Some(patch_applied(applied, Subresource::None, fields(patch)))
    }

    fn new_applied(&self, work: &ManifestWork) -> AppliedManifestWork {
        let metadata = ObjectMeta {
            name: Some(self.identity.applied_name(&self.key.name)),
            labels: work.metadata.labels.clone(),
            finalizers: Some(vec![APPLIED_WORK_FINALIZER.into()]),
            ..ObjectMeta::default()
        };
        let spec = AppliedManifestWorkSpec {
            hub_hash: self.identity.hub_hash.clone(),
            manifest_work_name: self.key.name.clone(),
            agent_id: self.identity.agent_id.clone(),
            ..AppliedManifestWorkSpec::default()
        };
        AppliedManifestWork { metadata, spec, ..AppliedManifestWork::default() }
    }

    /// Returns true if the work is complete and no longer applies anything.
    fn is_complete(work: &ManifestWork) -> bool {
        let conditions = work.status.iter().flat_map(|status| &status.conditions);
        let mut complete = conditions.filter(|c| c.type_ == work_conditions::COMPLETE);
        work.holds(work_conditions::COMPLETE)
            && complete.any(|c| c.observed_generation == work.metadata.generation)
    }

    /// Records the inventory, then applies the objects ordered by kind and removes unwanted objects.
    fn apply(&self, plan: &mut Plan, work: &ManifestWork, applied: &AppliedManifestWork, view: &impl View) {
        let Some(owner) = self.owner() else { return };
        if Self::is_complete(work) {
            return self.take_over(plan, work, applied, view);
        }
        let decisions: Vec<ManifestDecision> =
            self.wanted.iter().map(|wanted| ManifestDecision::new(wanted, work, &owner, view)).collect();
        let mut entries = self.inventory(&decisions);
        let (mut removals, mut gone) = (Vec::new(), Vec::new());
        // A work that an earlier process kept may be older than the inventory. See
        // docs/hazards-clusters.md#kept-work-is-older.
        let is_current = view.is_listed::<ManifestWork>(Site::Hub);
        for entry in self.unwanted().filter(|_| is_current) {
            match self.remove(entry, &owner, false, view) {
                Step::Wait | Step::NotServed => {}
                Step::Forget => gone.push(entry),
                Step::Write(action) => removals.push(*action),
            }
        }
        entries.retain(|entry| !gone.contains(&entry));
        plan.step(self.record(applied, &entries));
        let created = self.created_namespaces(&decisions);
        let mut writes: Vec<(&Wanted, Action)> = Vec::new();
        for (wanted, decision) in self.wanted.iter().zip(decisions) {
            writes.extend(action(wanted, decision).map(|action| (wanted, action)));
        }
        writes.sort_by_key(|(wanted, _)| spoke_rank(&wanted.meta.kind));
        let (later, first): (Vec<_>, Vec<_>) =
            writes.into_iter().partition(|(wanted, _)| created.contains(&wanted.meta.namespace));
        // Objects in a namespace that this plan creates are written after it. Otherwise, a rejected manifest
        // delays no other write and no removal. See docs/hazards-clusters.md#refused-manifest-blocks-pruning.
        plan.step(first.into_iter().map(|(_, action)| action).chain(removals));
        plan.step(later.into_iter().map(|(_, action)| action));
    }

    /// Takes over the objects of a complete work that are missing from its inventory, as after a change of the
    /// hub's URL. The inventory is written last, because it confirms that the owner references exist. See
    /// docs/hazards-clusters.md#complete-work-moved.
    fn take_over(
        &self,
        plan: &mut Plan,
        work: &ManifestWork,
        applied: &AppliedManifestWork,
        view: &impl View,
    ) {
        let owner = applied.owner_reference();
        let is_recorded = |wanted: &Wanted| {
            let is_it = |entry: &AppliedResource| {
                wanted.may_be(&entry.group, &entry.resource, &entry.namespace, &entry.name)
            };
            self.before.iter().any(is_it)
        };
        if self.wanted.iter().all(is_recorded) {
            return;
        }
        let decide = |wanted: &Wanted| ManifestDecision::new_complete(wanted, work, &owner, view);
        let decisions: Vec<ManifestDecision> = self.wanted.iter().map(decide).collect();
        if decisions.iter().any(|decision| decision.decision.is_none()) {
            return;
        }
        let record = self.record(applied, &self.inventory(&decisions));
        plan.step(
            self.wanted.iter().zip(decisions).filter_map(|(wanted, decision)| action(wanted, decision)),
        );
        plan.step(record);
    }

    /// Returns the inventory to record. `decisions` has an entry for each wanted object.
    fn inventory(&self, decisions: &[ManifestDecision]) -> Vec<AppliedResource> {
        let live = |object: &ObjectRef| {
            let mut all = self.wanted.iter().zip(decisions);
            all.find(|(wanted, _)| wanted.reference == *object).and_then(|(_, decision)| decision.live())
        };
        inventory(&self.before, &self.wanted, live)
    }

    /// Returns the missing namespaces that this plan creates. Objects in them wait.
    fn created_namespaces(&self, decisions: &[ManifestDecision]) -> BTreeSet<String> {
        let is_created = |(wanted, decision): &(&Wanted, &ManifestDecision)| {
            wanted.is_namespace()
                && decision.live().is_none()
                && matches!(decision.decision, Some(ApplyDecision::Apply { .. } | ApplyDecision::Create(_)))
        };
        let created = self.wanted.iter().zip(decisions).filter(is_created);
        created.map(|(wanted, _)| wanted.meta.name.clone()).collect()
    }

    /// Returns the inventory entries that the work no longer wants.
    fn unwanted(&self) -> impl Iterator<Item = &AppliedResource> {
        self.before.iter().filter(|entry| self.wanted_of(entry).is_none())
    }

    /// Returns the manifest for an inventory entry, or one that may match it.
    pub(super) fn wanted_of(&self, entry: &AppliedResource) -> Option<&Wanted> {
        let AppliedResource { group, resource, namespace, name, .. } = entry;
        let is_it = |wanted: &&Wanted| wanted.may_be(group, resource, namespace, name);
        let known = |wanted: &&Wanted| is_it(wanted) && matches!(wanted.served, Served::As { .. });
        self.wanted.iter().find(known).or_else(|| self.wanted.iter().find(is_it))
    }

    /// Writes the inventory if it differs from the recorded one.
    fn record(&self, applied: &AppliedManifestWork, entries: &[AppliedResource]) -> Vec<Action> {
        if self.before == entries {
            return Vec::new();
        }
        let patch = fields(json!({"status": {"appliedResources": entries}}));
        vec![patch_applied(applied, Subresource::Status, patch)]
    }

    /// Removes all objects of a work from the spoke, then releases the AppliedManifestWork.
    ///
    /// For some time, only custom objects are deleted, because their operator may be in the work and must remove
    /// their finalizers. See docs/hazards-clusters.md#operator-deleted-first. After that time, objects that the
    /// executor may not delete are left behind, so that a cluster can leave even if the permissions of its
    /// executors were removed first.
    fn tear_down(&self, plan: &mut Plan, applied: &AppliedManifestWork, view: &impl View, now: Timestamp) {
        let Some(owner) = self.owner() else { return };
        let until = ordered_until(applied, now);
        let (mut writes, mut pending, mut not_served) = (Vec::new(), Vec::new(), Vec::new());
        for entry in &self.before {
            let is_left = self.wanted_of(entry).is_some_and(|wanted| !wanted.owned);
            let option = self.work.as_ref().and_then(|work| work.spec.delete_option.as_ref());
            let is_kept =
                is_left || stays(option, entry) || (until.is_none() && self.may_not_delete(entry, view));
            match self.remove(entry, &owner, is_kept, view) {
                Step::Forget => {}
                Step::NotServed => not_served.push(entry.clone()),
                Step::Wait => pending.push(entry.clone()),
                Step::Write(action) => {
                    pending.push(entry.clone());
                    writes.push((entry, *action));
                }
            }
        }
        if pending.is_empty() {
            // The cluster serves no version of the remaining kinds: deleting their definition has deleted the
            // objects.
            let released = Action::remove_finalizers(applied, &[APPLIED_WORK_FINALIZER]);
            plan.step(released.map(|action| action.on(Site::Spoke)));
            return;
        }
        let is_ordered = pending.iter().any(|entry| needs_its_controller(&entry.group));
        pending.extend(not_served);
        pending.sort_by_key(|entry| self.before.iter().position(|before| before == entry));
        plan.step(self.record(applied, &pending));
        if let Some(until) = until {
            if is_ordered {
                writes.retain(|(entry, _)| needs_its_controller(&entry.group));
            }
            if is_ordered || self.executor().user().is_some() {
                plan.wake(until);
            }
        }
        plan.step(writes.into_iter().map(|(_, action)| action));
    }
}

/// Returns the time from which the objects of a deleted work are removed in any order; `None` if that is now. The
/// cluster wrote the deletion time, so a large clock difference ends the ordering at once.
fn ordered_until(applied: &AppliedManifestWork, now: Timestamp) -> Option<Timestamp> {
    let since = applied.metadata.deletion_timestamp.as_ref()?.0;
    (now.duration_since(since).abs() < ORDERED_FOR).then(|| later(since, ORDERED_FOR))
}

/// Returns the write for a decision. The API server authorizes it for the executor, because only the server knows
/// the resulting object. See docs/hazards-clusters.md#executor-ignored.
fn action(wanted: &Wanted, decision: ManifestDecision) -> Option<Action> {
    let precondition = decision.live().map(|live| Precondition {
        uid: live.uid().to_owned(),
        resource_version: live.resource_version().to_owned(),
    });
    let impersonate = wanted.executor.user();
    match decision.decision? {
        ApplyDecision::Leave | ApplyDecision::Refuse(_) => None,
        ApplyDecision::Create(object) => Some(Action::Create { site: Site::Spoke, object, impersonate }),
        ApplyDecision::Apply { object, force, manager } => {
            let manager = Some(manager);
            Some(Action::Apply { site: Site::Spoke, object, force, manager, impersonate, dry_run: false })
        }
        ApplyDecision::Patch(patch) => {
            let (site, subresource, target) = (Site::Spoke, Subresource::None, wanted.reference.clone());
            let precondition = precondition?;
            Some(Action::Patch { site, target, subresource, patch, precondition, impersonate })
        }
    }
}

/// The next step for an inventory entry.
pub(super) enum Step {
    /// Nothing to do: the object may exist, or is being deleted.
    Wait,
    /// Nothing to do: the cluster does not serve the resource.
    NotServed,
    /// Remove the entry from the inventory.
    Forget,
    Write(Box<Action>),
}

fn recorded(applied: &AppliedManifestWork) -> Vec<AppliedResource> {
    applied.status.as_ref().map(|status| status.applied_resources.clone()).unwrap_or_default()
}

pub(in crate::agent) fn fields(patch: Value) -> Map<String, Value> {
    patch.as_object().cloned().unwrap_or_default()
}

/// Patches the AppliedManifestWork. The agent is its only writer, so the precondition is just the uid.
pub(in crate::agent) fn patch_applied(
    applied: &AppliedManifestWork,
    subresource: Subresource,
    patch: Map<String, Value>,
) -> Action {
    let target = ObjectRef::of::<AppliedManifestWork>(Key::of(applied));
    let (site, precondition) = (Site::Spoke, Precondition::uid(applied));
    Action::Patch { site, target, subresource, patch, precondition, impersonate: None }
}
