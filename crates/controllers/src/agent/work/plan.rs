//! The writes of a work: its inventory, its objects, and their removal.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Map, Value, json};

use crate::agent_identity::{self, Identity};
use api::condition::Conditions as _;
use api::names::{APPLIED_KINDS_ANNOTATION, APPLIED_WORK_FINALIZER, WORK_FINALIZER, work_conditions};
use api::work::v1::{
    AppliedManifestWork, AppliedManifestWorkSpec, AppliedResource, DeletePropagationPolicy, ManifestWork,
};
use engine::order::spoke_rank;
use engine::work::{Decision, Inventory, Removal, Wanted, decide, inventory, read, removal, was_applied};
use object::{Gvk, Key, Metadata as _, Object, ObjectRef};
use reconcile::{Action, Plan, Precondition, Read, Site, Subresource, View};

/// A work, and what it has on the spoke.
pub(super) struct WorkOnSpoke {
    identity: Identity,
    key: Key,
    pub(super) work: Option<Arc<ManifestWork>>,
    pub(super) applied: Option<Arc<AppliedManifestWork>>,
    pub(super) wanted: Vec<Wanted>,
    /// The inventory as it was read.
    before: Inventory,
}

impl WorkOnSpoke {
    pub(super) fn read(key: &Key, view: &impl View) -> Read<Option<Self>> {
        let Some(identity) = agent_identity::identity(view)? else { return Ok(None) };
        let work = view.get::<ManifestWork>(key)?;
        let applied =
            view.get_on::<AppliedManifestWork>(Site::Spoke, &Key::cluster(identity.applied_name(&key.name)))?;
        let wanted = work.as_deref().map(read).unwrap_or_default();
        let before = applied.as_deref().map(recorded).unwrap_or_default();
        Ok(Some(Self { identity, key: key.clone(), work, applied, wanted, before }))
    }

    /// Kinds that must be watched for the work: those it wants and those it still has.
    fn kinds(&self) -> Vec<Gvk> {
        let wanted = self.wanted.iter().map(|wanted| wanted.reference.gvk.clone());
        let held = self.before.entries.iter().filter_map(|entry| Some(self.before.object(entry)?.gvk));
        let mut kinds: Vec<Gvk> = wanted.chain(held).filter(|gvk| !gvk.kind.is_empty()).collect();
        kinds.sort();
        kinds.dedup();
        kinds
    }

    pub(super) fn owner(&self) -> Option<OwnerReference> {
        self.applied.as_ref().map(|applied| applied.owner_reference())
    }

    pub(super) fn plan(&self, view: &impl View) -> Plan {
        let mut plan = Plan { observe: self.kinds(), ..Plan::default() };
        match (&self.work, &self.applied) {
            (_, Some(applied)) if applied.is_terminating() => self.tear_down(&mut plan, applied, view),
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
            }
            (Some(work), Some(applied)) => {
                plan.step(Action::add_finalizers(work.as_ref(), &[WORK_FINALIZER]));
                self.apply(&mut plan, work, applied, view);
            }
            // See docs/hazards.md#restored-hub.
            (None, _) => {}
        }
        plan
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

    /// Records the inventory, then applies the objects in the order of their kinds and removes those that are not wanted any more.
    fn apply(&self, plan: &mut Plan, work: &ManifestWork, applied: &AppliedManifestWork, view: &impl View) {
        let Some(owner) = self.owner() else { return };
        if work.holds(work_conditions::COMPLETE) {
            return;
        }
        let live: BTreeMap<&ObjectRef, Read<Option<Arc<Object>>>> =
            self.wanted.iter().map(|wanted| (&wanted.reference, view.observed(&wanted.reference))).collect();
        let seen = |object: &ObjectRef| {
            live.get(object).and_then(|read| read.as_ref().ok()).and_then(Option::as_deref)
        };
        let mut inventory = inventory(&self.before, &self.wanted, seen);
        let (mut removals, mut gone) = (Vec::new(), Vec::new());
        for entry in self.unwanted() {
            match self.remove(entry, &owner, false, view) {
                Step::Wait => {}
                Step::Forget => gone.push(entry),
                Step::Write(action) => removals.push(action),
            }
        }
        inventory.entries.retain(|entry| !gone.contains(&entry));
        plan.step(self.record(applied, &inventory));
        let mut writes = Vec::new();
        for wanted in &self.wanted {
            // A kind that has not been read may not be served yet: its definition may be among the manifests.
            let Some(Ok(live)) = live.get(&wanted.reference) else { continue };
            let action = match decide(wanted, live.as_deref(), &owner, was_applied(work, &wanted.meta)) {
                Decision::Leave | Decision::Refuse(_) => continue,
                Decision::Create(object) => Action::Create { site: Site::Spoke, object },
                Decision::Apply { object, force, manager } => Action::Apply {
                    site: Site::Spoke,
                    object,
                    force,
                    manager: Some(manager),
                    impersonate: None,
                    dry_run: false,
                },
            };
            writes.push(action);
        }
        writes.sort_by_key(|action| spoke_rank(kind_of(action)));
        // What others live in goes first; beyond that a manifest that is refused holds back nothing, removals included.
        // See docs/hazards.md#refused-manifest-blocks-pruning.
        let rest = writes.split_off(writes.partition_point(|action| spoke_rank(kind_of(action)) == 0));
        plan.step(writes);
        plan.step(rest.into_iter().chain(removals));
    }

    /// The entries of the inventory that the work does not want any more.
    fn unwanted(&self) -> impl Iterator<Item = &AppliedResource> {
        self.before.entries.iter().filter(|entry| self.wanted_of(entry).is_none())
    }

    /// The manifest of an inventory entry.
    fn wanted_of(&self, entry: &AppliedResource) -> Option<&Wanted> {
        self.wanted.iter().find(|Wanted { meta, .. }| {
            (&meta.group, &meta.resource, &meta.namespace, &meta.name)
                == (&entry.group, &entry.resource, &entry.namespace, &entry.name)
        })
    }

    fn remove(&self, entry: &AppliedResource, owner: &OwnerReference, stays: bool, view: &impl View) -> Step {
        // An entry whose kind is unknown or cannot be read stays: the object may exist.
        let Some(target) = self.before.object(entry) else { return Step::Wait };
        let Ok(live) = view.observed(&target) else { return Step::Wait };
        let mut precondition = Precondition::default();
        if let Some(live) = &live {
            live.uid().clone_into(&mut precondition.uid);
        }
        match removal(live.as_deref(), owner, stays) {
            Removal::Forget => Step::Forget,
            Removal::Wait => Step::Wait,
            Removal::Delete => Step::Write(Action::Delete {
                site: Site::Spoke,
                target,
                precondition,
                orphan: false,
                impersonate: None,
            }),
            Removal::Release(owners) => {
                if let Some(live) = &live {
                    live.resource_version().clone_into(&mut precondition.resource_version);
                }
                let patch = fields(json!({"metadata": {"ownerReferences": owners}}));
                let (site, subresource) = (Site::Spoke, Subresource::None);
                Step::Write(Action::Patch { site, target, subresource, patch, precondition })
            }
        }
    }

    /// Writes the inventory where it differs from the recorded one.
    fn record(&self, applied: &AppliedManifestWork, inventory: &Inventory) -> Vec<Action> {
        let mut actions = Vec::new();
        if inventory.kinds != self.before.kinds {
            let kinds = json!(inventory.kinds).to_string();
            let patch = fields(json!({"metadata": {"annotations": {APPLIED_KINDS_ANNOTATION: kinds}}}));
            actions.push(patch_applied(applied, Subresource::None, patch));
        }
        if !self.before.lists_the_same(&inventory.entries) {
            let patch = fields(json!({"status": {"appliedResources": inventory.entries}}));
            actions.push(patch_applied(applied, Subresource::Status, patch));
        }
        actions
    }

    /// Removes everything that a work has on the spoke, and then lets go of the AppliedManifestWork.
    fn tear_down(&self, plan: &mut Plan, applied: &AppliedManifestWork, view: &impl View) {
        let Some(owner) = self.owner() else { return };
        let stays = |entry: &AppliedResource| {
            self.wanted_of(entry).map_or_else(|| self.orphans_all(), |wanted| !wanted.owned)
        };
        let (mut writes, mut pending) = (Vec::new(), Vec::new());
        for entry in &self.before.entries {
            match self.remove(entry, &owner, stays(entry), view) {
                Step::Forget => {}
                Step::Wait => pending.push(entry.clone()),
                Step::Write(action) => {
                    pending.push(entry.clone());
                    writes.push(action);
                }
            }
        }
        if pending.is_empty() {
            let released = Action::remove_finalizers(applied, &[APPLIED_WORK_FINALIZER]);
            plan.step(released.map(|action| action.on(Site::Spoke)));
            return;
        }
        plan.step(self.record(applied, &Inventory { entries: pending, kinds: self.before.kinds.clone() }));
        plan.step(writes);
    }

    fn orphans_all(&self) -> bool {
        let option = self.work.as_ref().and_then(|work| work.spec.delete_option.as_ref());
        option.is_some_and(|option| option.propagation_policy == DeletePropagationPolicy::Orphan)
    }
}

/// The next step for an inventory entry.
enum Step {
    /// None: the object may exist, or is being deleted.
    Wait,
    /// The entry is dropped.
    Forget,
    Write(Action),
}

fn recorded(applied: &AppliedManifestWork) -> Inventory {
    let kinds = applied.annotation(APPLIED_KINDS_ANNOTATION);
    let kinds = kinds.and_then(|kinds| serde_json::from_str(kinds).ok()).unwrap_or_default();
    let entries = applied.status.as_ref().map(|status| status.applied_resources.clone()).unwrap_or_default();
    Inventory { entries, kinds }
}

fn kind_of(action: &Action) -> &str {
    match action {
        Action::Apply { object, .. } | Action::Create { object, .. } | Action::Replace { object, .. } => {
            object.kind()
        }
        Action::Patch { target, .. } | Action::Delete { target, .. } => &target.gvk.kind,
        Action::Push(_) => "",
    }
}

fn fields(patch: Value) -> Map<String, Value> {
    patch.as_object().cloned().unwrap_or_default()
}

/// Patches the AppliedManifestWork. Nobody else writes it, so only its uid has to be the same.
fn patch_applied(
    applied: &AppliedManifestWork,
    subresource: Subresource,
    patch: Map<String, Value>,
) -> Action {
    let target = ObjectRef::of::<AppliedManifestWork>(Key::of(applied));
    Action::Patch { site: Site::Spoke, target, subresource, patch, precondition: Precondition::uid(applied) }
}
