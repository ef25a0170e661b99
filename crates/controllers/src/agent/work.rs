//! Applies works to the spoke, watches what became of them, and removes what they leave.
//!
//! The inventory of a work is its AppliedManifestWork on the spoke: it names an object before the object is created and until its
//! deletion has been seen. Ownership is a reference with that object's uid; without it nothing is ever deleted.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};

use crate::agent_identity::{self, Identity};
use api::cluster::v1alpha1::ClusterClaim;
use api::condition::ConditionStatus::True;
use api::condition::{Observation, set_condition};
use api::names::{
    AGENT_CLAIM, APPLIED_KINDS_ANNOTATION, APPLIED_WORK_FINALIZER, WORK_FINALIZER, work_conditions,
};
use api::work::v1::{
    AppliedManifestWork, AppliedManifestWorkSpec, AppliedResource, DeletePropagationPolicy, ManifestWork,
    ManifestWorkStatus,
};
use engine::applier::{Owner, rank};
use engine::work::{
    Decision, Inventory, Removal, Seen, Wanted, decide, inventory, read, removal, was_applied, work_status,
};
use object::{Gvk, Key, Kind, Metadata as _, Object, ObjectRef};
use reconcile::{
    Action, Controller, Executed, Plan, Precondition, Query, Read, Site, StatusWrite, Subresource, View,
    Watches,
};

/// See the [module](self).
pub(crate) struct WorkController;

impl Controller for WorkController {
    const NAME: &'static str = "work-agent";
    type Primary = ManifestWork;

    fn watches<W: Watches>(watches: &mut W) {
        watches.on_site::<AppliedManifestWork>(Site::Spoke, |change, view| {
            let Ok(Some(identity)) = agent_identity::identity(view) else { return Vec::new() };
            let names =
                change.sides().take(1).filter_map(|applied| identity.work(applied.metadata.name.as_deref()?));
            names.collect()
        });
        watches.on_observed(|change, view| {
            change.sides().take(1).flat_map(|object| concerned(object, view)).collect()
        });
        watches.on_site::<ClusterClaim>(Site::Spoke, |change, view| {
            let claim = change.latest().filter(|claim| claim.name() == AGENT_CLAIM);
            claim.map(|_| view.keys::<ManifestWork>(Query::ALL)).unwrap_or_default()
        });
    }

    fn plan(key: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        let reconcile = Reconcile::read(key, view)?;
        Ok(reconcile.map_or_else(Plan::nothing, |reconcile| reconcile.plan(view)))
    }

    fn conclude(key: &Key, view: &impl View, done: &Executed, now: Timestamp) -> Option<StatusWrite> {
        let reconcile = Reconcile::read(key, view).ok().flatten()?;
        let work = reconcile.work.as_ref()?;
        let status = reconcile.status(view, done, now)?;
        let new = ManifestWork { status: Some(status), ..ManifestWork::clone(work) };
        StatusWrite::between(work.as_ref(), &new)
    }
}

/// The works an object on the spoke belongs to: those it names as owners, else those that report about it.
fn concerned(object: &Object, view: &impl View) -> Vec<Key> {
    let Ok(Some(identity)) = agent_identity::identity(view) else { return Vec::new() };
    let owners = object.at(&["metadata", "ownerReferences"]).and_then(Value::as_array).into_iter().flatten();
    let names =
        owners.filter(|owner| owner.get("kind").and_then(Value::as_str) == Some("AppliedManifestWork"));
    let works: Vec<Key> = names.filter_map(|owner| identity.work(owner.get("name")?.as_str()?)).collect();
    if !works.is_empty() {
        return works;
    }
    let reference = object.reference();
    let reports = |work: &&Arc<ManifestWork>| {
        let manifests =
            work.status.iter().flat_map(|status| &status.resource_status.manifests).map(|m| &m.resource_meta);
        let is = |m: &api::work::v1::ManifestResourceMeta| {
            (&m.group, &m.kind, &m.namespace, &m.name)
                == (&reference.gvk.group, &reference.gvk.kind, &reference.key.namespace, &reference.key.name)
        };
        manifests.into_iter().any(is)
    };
    let all = view.list::<ManifestWork>(Query::namespace(&identity.cluster)).unwrap_or_default();
    all.iter().filter(reports).map(|work| Key::of(work.as_ref())).collect()
}

/// A work and what of it is on the spoke.
struct Reconcile {
    identity: Identity,
    key: Key,
    work: Option<Arc<ManifestWork>>,
    applied: Option<Arc<AppliedManifestWork>>,
    wanted: Vec<Wanted>,
    before: Inventory,
}

impl Reconcile {
    fn read(key: &Key, view: &impl View) -> Read<Option<Self>> {
        let Some(identity) = agent_identity::identity(view)? else { return Ok(None) };
        let work = view.get::<ManifestWork>(key)?;
        let applied =
            view.get_on::<AppliedManifestWork>(Site::Spoke, &Key::cluster(identity.applied_name(&key.name)))?;
        let wanted = work.as_deref().map(read).unwrap_or_default();
        let before = applied.as_deref().map(listed).unwrap_or_default();
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

    fn owner(&self) -> Option<Owner> {
        let applied = self.applied.as_deref()?;
        let gvk = Gvk::of::<AppliedManifestWork>();
        let name = applied.metadata.name.clone().unwrap_or_default();
        Some(Owner {
            api_version: gvk.api_version(),
            kind: gvk.kind,
            name,
            uid: applied.metadata.uid.clone().unwrap_or_default(),
        })
    }

    fn plan(&self, view: &impl View) -> Plan {
        let mut plan = Plan { observe: self.kinds(), ..Plan::default() };
        let going = |meta: &ObjectMeta| meta.deletion_timestamp.is_some();
        match (&self.work, &self.applied) {
            (_, Some(applied)) if going(&applied.metadata) => self.tear_down(&mut plan, applied, view),
            (Some(work), applied) if going(&work.metadata) => match applied {
                Some(applied) => plan.step([delete_on_spoke(applied.as_ref())]),
                None => plan.step(without_finalizer(Site::Hub, work.as_ref(), WORK_FINALIZER)),
            },
            (Some(work), None) => {
                plan.step(with_finalizer(work));
                plan.step([Action::Create {
                    site: Site::Spoke,
                    object: Object::from_typed(&self.new_applied(work)),
                }]);
            }
            (Some(work), Some(applied)) => {
                plan.step(with_finalizer(work));
                self.apply(&mut plan, work, applied, view);
            }
            // Nothing is removed because a work is missing: the hub may have been restored without it.
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

    /// Inventory first, then the objects in the order of their kinds, then what is not wanted any more.
    fn apply(&self, plan: &mut Plan, work: &ManifestWork, applied: &AppliedManifestWork, view: &impl View) {
        let Some(owner) = self.owner() else { return };
        if is_complete(work) {
            return;
        }
        let live: BTreeMap<&ObjectRef, Read<Option<Arc<Object>>>> =
            self.wanted.iter().map(|wanted| (&wanted.reference, view.observed(&wanted.reference))).collect();
        let seen = |object: &ObjectRef| {
            live.get(object).and_then(|read| read.as_ref().ok()).and_then(Option::as_deref)
        };
        let mut inventory = inventory(&self.before, &self.wanted, seen);
        let (mut removals, mut gone) = (Vec::new(), Vec::new());
        for entry in self.left() {
            match self.remove(entry, &owner, false, view) {
                Left::Keep => {}
                Left::Gone => gone.push(entry),
                Left::Write(action) => removals.push(action),
            }
        }
        inventory.entries.retain(|entry| !gone.contains(&entry));
        plan.step(self.record(applied, &inventory));
        let mut writes = Vec::new();
        for wanted in &self.wanted {
            // A kind that is not read yet may not be served yet: its definition may be among the manifests.
            let Some(Ok(live)) = live.get(&wanted.reference) else { continue };
            let action = match decide(wanted, live.as_deref(), &owner, was_applied(work, &wanted.meta)) {
                Decision::Leave | Decision::Refuse(_) => continue,
                Decision::Create(object) => Action::Create { site: Site::Spoke, object },
                Decision::Apply { object, force, manager } => {
                    Action::Apply { site: Site::Spoke, object, force, manager: Some(manager) }
                }
            };
            writes.push(action);
        }
        writes.sort_by_key(|action| rank(kind_of(action)));
        // What others live in goes first; beyond that a manifest that is refused holds back nothing, removals included.
        // See docs/hazards.md#refused-manifest-blocks-pruning.
        let rest = writes.split_off(writes.partition_point(|action| rank(kind_of(action)) == 0));
        plan.step(writes);
        plan.step(rest.into_iter().chain(removals));
    }

    /// Entries of the inventory that the work does not want any more.
    fn left(&self) -> impl Iterator<Item = &AppliedResource> {
        self.before.entries.iter().filter(|entry| {
            let is = |m: &api::work::v1::ManifestResourceMeta| {
                (&m.group, &m.resource, &m.namespace, &m.name)
                    == (&entry.group, &entry.resource, &entry.namespace, &entry.name)
            };
            !self.wanted.iter().any(|wanted| is(&wanted.meta))
        })
    }

    fn remove(&self, entry: &AppliedResource, owner: &Owner, stays: bool, view: &impl View) -> Left {
        // An object whose kind is unknown or cannot be read is kept on the list: it may well be there.
        let Some(object) = self.before.object(entry) else { return Left::Keep };
        let Ok(live) = view.observed(&object) else { return Left::Keep };
        let uid = live.as_ref().map(|live| live.uid().to_owned()).unwrap_or_default();
        match removal(live.as_deref(), owner, stays) {
            Removal::Forget => Left::Gone,
            Removal::Wait => Left::Keep,
            Removal::Delete => {
                let precondition = Precondition { uid, ..Precondition::default() };
                Left::Write(Action::Delete { site: Site::Spoke, target: object, precondition, orphan: false })
            }
            Removal::Release(owners) => {
                let resource_version =
                    live.as_ref().map(|live| live.resource_version().to_owned()).unwrap_or_default();
                let patch =
                    json!({"metadata": {"ownerReferences": owners}}).as_object().cloned().unwrap_or_default();
                let precondition = Precondition { uid, resource_version };
                Left::Write(Action::Patch {
                    site: Site::Spoke,
                    target: object,
                    subresource: Subresource::None,
                    patch,
                    precondition,
                })
            }
        }
    }

    /// The write that makes the applied work list an inventory; nothing where it does.
    fn record(&self, applied: &AppliedManifestWork, inventory: &Inventory) -> Vec<Action> {
        let mut actions = Vec::new();
        if inventory.kinds != self.before.kinds {
            let kinds = serde_json::to_string(&inventory.kinds).unwrap_or_default();
            let patch = json!({"metadata": {"annotations": {APPLIED_KINDS_ANNOTATION: kinds}}})
                .as_object()
                .cloned()
                .unwrap_or_default();
            actions.push(on_spoke(applied, Subresource::None, patch));
        }
        if !self.before.lists_the_same(&inventory.entries) {
            let patch = json!({"status": {"appliedResources": inventory.entries}})
                .as_object()
                .cloned()
                .unwrap_or_default();
            actions.push(on_spoke(applied, Subresource::Status, patch));
        }
        actions
    }

    /// Removes everything a work has on the spoke; the applied work goes last.
    fn tear_down(&self, plan: &mut Plan, applied: &AppliedManifestWork, view: &impl View) {
        let Some(owner) = self.owner() else { return };
        let stays = |entry: &AppliedResource| {
            let wanted = self.wanted.iter().find(|wanted| {
                let m = &wanted.meta;
                (&m.group, &m.resource, &m.namespace, &m.name)
                    == (&entry.group, &entry.resource, &entry.namespace, &entry.name)
            });
            wanted.map_or_else(|| self.orphans_all(), |wanted| !wanted.owned)
        };
        let (mut writes, mut pending) = (Vec::new(), Vec::new());
        for entry in &self.before.entries {
            match self.remove(entry, &owner, stays(entry), view) {
                Left::Gone => {}
                Left::Keep => pending.push(entry.clone()),
                Left::Write(action) => {
                    pending.push(entry.clone());
                    writes.push(action);
                }
            }
        }
        if pending.is_empty() {
            plan.step(without_finalizer(Site::Spoke, applied, APPLIED_WORK_FINALIZER));
            return;
        }
        plan.step(self.record(applied, &Inventory { entries: pending, kinds: self.before.kinds.clone() }));
        plan.step(writes);
    }

    fn orphans_all(&self) -> bool {
        let option = self.work.as_ref().and_then(|work| work.spec.delete_option.as_ref());
        option.is_some_and(|option| option.propagation_policy == DeletePropagationPolicy::Orphan)
    }

    fn status(&self, view: &impl View, done: &Executed, now: Timestamp) -> Option<ManifestWorkStatus> {
        let work = self.work.as_ref()?;
        if work.metadata.deletion_timestamp.is_some() {
            let mut status = work.status.clone().unwrap_or_default();
            let deleting = Observation::new(work_conditions::DELETING, True, "WorkDeleting")
                .message("ManifestWork is being deleted");
            set_condition(&mut status.conditions, deleting, now);
            return has_finalizer(&work.metadata, WORK_FINALIZER).then_some(status);
        }
        self.applied.as_ref()?;
        let written: BTreeMap<ObjectRef, _> =
            done.results().filter_map(|(action, outcome)| Some((target_of(action)?, outcome))).collect();
        let live: Vec<Read<Option<Arc<Object>>>> =
            self.wanted.iter().map(|wanted| view.observed(&wanted.reference)).collect();
        let owner = self.owner()?;
        let seen = self.wanted.iter().zip(&live).map(|(wanted, live)| {
            let outcome = written.get(&wanted.reference);
            let refused = match decide(wanted, None, &owner, false) {
                Decision::Refuse(why) => Some(Err(why)),
                Decision::Leave | Decision::Create(_) | Decision::Apply { .. } => None,
            };
            let result =
                outcome.map(|outcome| outcome.as_ref().map(drop).map_err(|failure| failure.message.clone()));
            // What a write returned is newer than what was read before it.
            let returned = outcome.and_then(|outcome| outcome.as_ref().ok()).and_then(Option::as_ref);
            let read = live.as_ref().ok().map(Option::as_deref);
            Seen { live: returned.map(Some).or(read), written: refused.or(result) }
        });
        let seen: Vec<Seen<'_>> = seen.collect();
        // What was planned and not reached says nothing: the next attempt will.
        if done.outcomes.len() < done.plan.steps.len() && written.is_empty() {
            return None;
        }
        Some(work_status(work, &self.wanted, &seen, now))
    }
}

/// What becomes of an inventory entry.
enum Left {
    Keep,
    Gone,
    Write(Action),
}

fn listed(applied: &AppliedManifestWork) -> Inventory {
    let kinds = applied.metadata.annotations.as_ref().and_then(|a| a.get(APPLIED_KINDS_ANNOTATION));
    let kinds = kinds.and_then(|kinds| serde_json::from_str(kinds).ok()).unwrap_or_default();
    let entries = applied.status.as_ref().map(|status| status.applied_resources.clone()).unwrap_or_default();
    Inventory { entries, kinds }
}

fn is_complete(work: &ManifestWork) -> bool {
    let conditions = work.status.iter().flat_map(|status| &status.conditions);
    conditions
        .into_iter()
        .any(|condition| condition.type_ == work_conditions::COMPLETE && condition.is_true())
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

/// The object that applying or creating makes.
fn target_of(action: &Action) -> Option<ObjectRef> {
    match action {
        Action::Apply { site: Site::Spoke, object, .. } | Action::Create { site: Site::Spoke, object } => {
            Some(object.reference())
        }
        Action::Apply { .. }
        | Action::Create { .. }
        | Action::Replace { .. }
        | Action::Patch { .. }
        | Action::Delete { .. }
        | Action::Push(_) => None,
    }
}

fn has_finalizer(metadata: &ObjectMeta, finalizer: &str) -> bool {
    metadata.finalizers.iter().flatten().any(|held| held == finalizer)
}

fn with_finalizer(work: &ManifestWork) -> Option<Action> {
    if has_finalizer(&work.metadata, WORK_FINALIZER) {
        return None;
    }
    let all: Vec<&str> =
        work.metadata.finalizers.iter().flatten().map(String::as_str).chain([WORK_FINALIZER]).collect();
    Some(Action::patch(
        work,
        json!({"metadata": {"finalizers": all}}).as_object().cloned().unwrap_or_default(),
    ))
}

fn without_finalizer<K: Kind>(site: Site, object: &K, finalizer: &str) -> Option<Action> {
    if !has_finalizer(object.meta(), finalizer) {
        return None;
    }
    let rest: Vec<&String> =
        object.meta().finalizers.iter().flatten().filter(|held| *held != finalizer).collect();
    let patch = json!({"metadata": {"finalizers": rest}}).as_object().cloned().unwrap_or_default();
    let precondition = Precondition::unchanged(object);
    Some(Action::Patch {
        site,
        target: ObjectRef::of::<K>(Key::of(object)),
        subresource: Subresource::None,
        patch,
        precondition,
    })
}

fn delete_on_spoke<K: Kind>(object: &K) -> Action {
    let target = ObjectRef::of::<K>(Key::of(object));
    Action::Delete { site: Site::Spoke, target, precondition: Precondition::uid(object), orphan: false }
}

/// A patch of the applied work, which nobody else writes; only its uid must be the same.
fn on_spoke(applied: &AppliedManifestWork, subresource: Subresource, patch: Map<String, Value>) -> Action {
    let target = ObjectRef::of::<AppliedManifestWork>(Key::of(applied));
    Action::Patch { site: Site::Spoke, target, subresource, patch, precondition: Precondition::uid(applied) }
}
