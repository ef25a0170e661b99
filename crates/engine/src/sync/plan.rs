//! Decides the writes and deletions of a commit, from its objects, the inventory and the live objects.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::argo::EndTracking;
use super::decide::{Decider, ObjectDecision, defined_kinds};
use super::health::ObjectHealth;
use super::ignore::IgnoreRule;
use super::kubectl::ManagedFields;
use super::ownership::OWNED_BY_CONFIG_REPO;
use super::{
    Budget, Comparisons, Deletion, DeletionHold, Desired, DesiredObject, HandOver, Inventory, ObjectId,
    Problem, Recent, Takeover, prune,
};
use crate::order::{HUB_STAGES, hub_stage};
use object::{Key, Object, ObjectRef};

/// The input of a plan beside the commit.
#[derive(Clone, Copy, Debug)]
pub struct SyncInput<'a> {
    /// The ConfigRepo.
    pub repo: &'a Key,
    /// The objects that it owns so far.
    pub inventory: &'a Inventory,
    /// The objects in the inventories of other ConfigRepos.
    pub claimed: &'a BTreeMap<ObjectId, Vec<Claimant>>,
    /// The objects that other ConfigRepos of the same identity want to have from it.
    pub requested: &'a BTreeMap<ObjectId, Key>,
    /// Whether another ConfigRepo will soon have requested what it wants. Deletions wait meanwhile.
    pub awaits_requests: bool,
    /// Why another ConfigRepo cannot request what it may want. Deletions need an approval meanwhile.
    pub unjudged: Option<&'a str>,
    /// The missing namespaces of its objects.
    pub missing_namespaces: &'a BTreeSet<String>,
    /// The objects of the commit that are not applied by this plan.
    pub withheld: &'a Withheld,
    /// The objects that it deleted without an approval, and when.
    pub recent: &'a Recent,
    /// The time.
    pub now: Timestamp,
    /// The decisions of its user.
    pub policy: &'a SyncPolicy,
}

/// Objects of a commit that stay as they are on the hub: they would allow what must wait for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Withheld {
    /// Those that stay as they are in any case.
    pub always: BTreeSet<ObjectId>,
    /// Those that stay as they are while a deletion that clusters lose something with waits.
    pub with_uninstalls: BTreeSet<ObjectId>,
}

impl Withheld {
    /// Returns what a plan with these deletions leaves as it is.
    fn by(&self, plan: &SyncPlan<'_>, uninstalls: &BTreeMap<ObjectId, usize>) -> BTreeSet<&ObjectId> {
        let mut held = plan.hold.iter().flat_map(|hold| &hold.objects);
        let waits = plan.awaiting_requests > 0 || held.any(|id| uninstalls.contains_key(id));
        self.always.iter().chain(self.with_uninstalls.iter().filter(|_| waits)).collect()
    }
}

/// Another ConfigRepo whose inventory has an object.
///
/// An inventory is written before its objects, so it shows what the ConfigRepo wants to write, and not
/// that it may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimant {
    /// The ConfigRepo.
    pub repo: Key,
    /// Whether the hub refuses its writes.
    pub is_forbidden: bool,
}

/// The settings of the user of a ConfigRepo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncPolicy {
    /// The rule for objects that others created.
    pub takeover: Takeover,
    /// Whether Secrets of others are not compared: the user may not learn what the operator can read.
    pub is_blind_to_secrets: bool,
    /// Whether objects that leave the repository are deleted.
    pub prune: bool,
    /// The limit of the deletions without approval; `None` sets no limit.
    pub budget: Option<Budget>,
    /// The approval of deletions above the budget; empty if there is none.
    pub approved: String,
    /// How many clusters lose an add-on when an object is deleted, for the objects with which more clusters
    /// lose it than may at once.
    pub uninstalls: BTreeMap<ObjectId, usize>,
    /// Whether a stage waits until the objects of the stages before it are healthy.
    pub waits_for_health: bool,
    /// Fields that are left as they are on the hub.
    pub ignore: Vec<IgnoreRule>,
    /// The uids of objects that could not be changed, with the digests of the wanted ones. They are deleted
    /// if their annotation says so.
    pub unchangeable: BTreeMap<String, String>,
}

/// An object that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terminating {
    /// The object.
    pub object: ObjectRef,
    /// Since when; `None` if it is deleted now.
    pub since: Option<Timestamp>,
    /// Who has to agree before it is gone.
    pub finalizers: Vec<String>,
}

impl Terminating {
    /// Reads a live object.
    pub(super) fn of(live: &Object) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let since = live.at(&["metadata", "deletionTimestamp"]).and_then(Value::as_str);
        let finalizers = live.at(&["metadata", "finalizers"]).and_then(Value::as_array);
        Self {
            object: live.reference(),
            since: since.and_then(|since| since.parse().ok()),
            finalizers: finalizers.into_iter().flatten().filter_map(text).collect(),
        }
    }
}

/// An object that is as the commit says and not healthy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unhealthy {
    /// The object.
    pub object: ObjectRef,
    /// Its health.
    pub health: ObjectHealth,
}

/// A server-side apply of one object of the commit.
#[derive(Clone, Debug, PartialEq)]
pub struct Apply<'a> {
    /// The object.
    pub desired: &'a DesiredObject,
    /// Takes fields that another manager owns with another value.
    pub force: bool,
    /// Ends the tracking of the object by Argo CD, from which it is taken over.
    pub end_tracking: Option<EndTracking>,
    /// The object with the live values of ignored fields; `None` if it is applied as the commit has it.
    pub adopted: Option<Object>,
    /// Managed fields to write before, in which kubectl owns nothing any more.
    pub managed_fields: Option<ManagedFields>,
}

impl Apply<'_> {
    /// Returns the object to send, with the annotations of its owner.
    pub fn marked(&self, repo: &Key) -> Object {
        self.desired.marked(self.adopted.as_ref().unwrap_or(&self.desired.object), repo)
    }
}

/// An object that another client changed on the hub.
#[derive(Clone, Debug, PartialEq)]
pub struct Correction<'a> {
    /// The apply that corrects it.
    pub apply: Apply<'a>,
    /// The managers that own fields of the commit now, with the paths of the fields.
    pub changed_by: Vec<(String, Vec<String>)>,
}

/// The writes and deletions that bring a commit to the hub.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyncPlan<'a> {
    /// The objects that are owned from now on. The inventory is recorded before any other write.
    pub inventory: Inventory,
    /// Objects that are new or changed in the repository, by stage.
    pub apply: Vec<Vec<Apply<'a>>>,
    /// Whether later stages wait until the objects of an earlier one are healthy. Nothing is deleted before.
    pub is_held: bool,
    /// Whether an object that is applied may become healthy later.
    pub takes_time: bool,
    /// Objects that are applied and not healthy.
    pub unhealthy: Vec<Unhealthy>,
    /// Objects that were changed on the hub.
    pub correct: Vec<Correction<'a>>,
    /// Objects that are deleted because a field of them cannot change. The next plan creates them again.
    pub recreate: Vec<Deletion>,
    /// Objects that left the repository, in the reverse order of stages.
    pub delete: Vec<Vec<Deletion>>,
    /// Objects that left the repository and that other ConfigRepos have requested or Argo CD applies.
    pub hand_over: Vec<HandOver>,
    /// Number of deletions that wait until other ConfigRepos have judged the commit.
    pub awaiting_requests: usize,
    /// Deletions that wait for approval.
    pub hold: Option<DeletionHold>,
    /// The deletions that count against the budget from now on, with those of this plan. They are recorded
    /// before they are made.
    pub recent: Recent,
    /// Objects that are being deleted; the next plan follows when they are gone.
    pub terminating: Vec<Terminating>,
    /// Objects that wait for a namespace that the commit does not create. They do not delay the others.
    pub pending_namespace: Vec<ObjectRef>,
    /// Failed reads; there is no decision until they succeed.
    pub unread: Vec<String>,
    /// Objects that may not be applied; if there are any, no object is applied or deleted.
    pub problems: Vec<Problem>,
    /// The objects of the commit that another ConfigRepo owns.
    pub requests: Inventory,
}

/// The applies of a commit by stage, and the stages that are not finished.
#[derive(Default)]
struct Stages<'a> {
    applies: BTreeMap<u8, Vec<Apply<'a>>>,
    unfinished: BTreeSet<u8>,
}

impl<'a> Stages<'a> {
    fn add(&mut self, stage: u8, apply: Apply<'a>, takes_time: bool) {
        debug_assert!(stage < HUB_STAGES, "every stage has a number below");
        self.applies.entry(stage).or_default().push(apply);
        if takes_time {
            self.unfinished.insert(stage);
        }
    }

    /// Returns the applies of this plan, and whether later stages wait for the health of an earlier one.
    fn end(mut self, waits_for_health: bool) -> (Vec<Vec<Apply<'a>>>, bool) {
        let Some(first) = self.unfinished.first().filter(|_| waits_for_health) else {
            return (self.applies.into_values().collect(), false);
        };
        let is_held = self.applies.keys().any(|stage| stage > first);
        self.applies.retain(|stage, _| stage <= first);
        (self.applies.into_values().collect(), is_held)
    }
}

/// Decides the writes and deletions that bring the objects of a commit to the hub.
///
/// `live` reads an object of the hub. It fails if the kind has not been read; a failed read decides nothing.
/// `comparisons` are those of earlier plans for the ConfigRepo.
pub fn plan<'a, E: Display>(
    desired: &'a Desired,
    input: &SyncInput<'_>,
    comparisons: &mut Comparisons,
    live: impl Fn(&ObjectRef) -> Result<Option<Arc<Object>>, E>,
) -> SyncPlan<'a> {
    let mut plan = SyncPlan::default();
    comparisons.hold_for(&input.policy.ignore, &desired.objects);
    let mut decider = Decider { input, comparisons, live: &live, defined: defined_kinds(desired) };
    let mut applies = Vec::new();
    let mut stages = Stages::default();
    let mut left: BTreeSet<ObjectId> = BTreeSet::new();
    for object in &desired.objects {
        let stage = hub_stage(&object.reference.gvk);
        match decider.decide(object) {
            ObjectDecision::Unchanged(ObjectHealth::Current) => {}
            ObjectDecision::Leave => {
                left.insert(ObjectId::of(&object.reference));
            }
            ObjectDecision::Unchanged(health) => {
                stages.unfinished.insert(stage);
                plan.unhealthy.push(Unhealthy { object: object.reference.clone(), health });
            }
            ObjectDecision::Apply { apply, takes_time } => applies.push((stage, apply, takes_time)),
            ObjectDecision::Correct(correction) => plan.correct.push(correction),
            ObjectDecision::Recreate(deletion) => {
                let object = deletion.target.clone();
                plan.terminating.push(Terminating { object, since: None, finalizers: Vec::new() });
                plan.recreate.push(deletion);
            }
            ObjectDecision::NamespaceMissing => plan.pending_namespace.push(object.reference.clone()),
            ObjectDecision::Terminating(terminating) => plan.terminating.push(terminating),
            ObjectDecision::Unread(why) => plan.unread.push(why),
            ObjectDecision::Refuse(problem) => {
                if problem.reason == OWNED_BY_CONFIG_REPO {
                    let version = object.reference.gvk.version.clone();
                    plan.requests.insert(ObjectId::of(&object.reference), version);
                }
                plan.problems.push(problem);
            }
        }
    }
    plan.unread.dedup();
    if !plan.problems.is_empty() || !plan.unread.is_empty() {
        // The commit is not applied, so the inventory stays as it is. Two ConfigRepos that exchange objects
        // are both refused until one of them hands over what it has.
        let mut refused = plan.refused(input.inventory);
        let waits_for_others = refused.problems.iter().all(|problem| problem.reason == OWNED_BY_CONFIG_REPO);
        if waits_for_others && refused.unread.is_empty() {
            refused.hand_over = prune::hand_over(desired, input, &live);
        }
        return refused;
    }
    let named = desired.objects.iter().map(|d| (ObjectId::of(&d.reference), d.reference.gvk.version.clone()));
    // An object that is left to others is ours only if we created it.
    let is_ours = |id: &ObjectId| !left.contains(id) || input.inventory.contains_key(id);
    plan.inventory = named.filter(|(id, _)| is_ours(id)).collect();
    prune::prune(input, &live, &mut plan);
    let withheld = input.withheld.by(&plan, &input.policy.uninstalls);
    let is_written = |apply: &Apply<'_>| !withheld.contains(&ObjectId::of(&apply.desired.reference));
    plan.correct.retain(|one| is_written(&one.apply));
    for (stage, apply, takes_time) in applies.into_iter().filter(|(_, apply, _)| is_written(apply)) {
        plan.takes_time |= takes_time;
        stages.add(stage, apply, takes_time);
    }
    (plan.apply, plan.is_held) = stages.end(input.policy.waits_for_health);
    if plan.is_held {
        plan.delete.clear();
        plan.recent.retain(|id, _| input.recent.contains_key(id));
    }
    plan.keep_record(input);
    debug_assert!(
        plan.apply
            .iter()
            .flatten()
            .all(|it| plan.inventory.contains_key(&ObjectId::of(&it.desired.reference))),
        "the inventory lists every object that is applied"
    );
    plan
}

impl SyncPlan<'_> {
    /// Returns a plan that writes nothing, with what is in the way.
    fn refused(self, inventory: &Inventory) -> Self {
        let Self { problems, requests, unread, .. } = self;
        Self { inventory: inventory.clone(), problems, requests, unread, ..Self::default() }
    }

    /// Keeps the record of deletions as it is where it differs only by those that count no longer: the end of
    /// a window causes no write by itself.
    fn keep_record(&mut self, input: &SyncInput<'_>) {
        let Some(budget) = input.policy.budget else { return };
        let is_as_recorded = |(id, at): (&ObjectId, &Timestamp)| {
            !budget.counts(*at, input.now) || self.recent.get(id) == Some(at)
        };
        let is_new = self.recent.keys().any(|id| !input.recent.contains_key(id));
        if !is_new && input.recent.iter().all(is_as_recorded) {
            self.recent.clone_from(input.recent);
        }
    }

    /// Returns whether the hub is as the repository says.
    pub fn is_settled(&self) -> bool {
        let Self {
            inventory: _,
            // They are as the commit says, and their own controllers make them healthy.
            unhealthy: _,
            takes_time: _,
            is_held,
            apply,
            correct,
            recreate,
            delete,
            hand_over,
            awaiting_requests,
            hold,
            recent: _,
            terminating,
            pending_namespace,
            unread,
            problems,
            requests: _,
        } = self;
        !is_held
            && apply.is_empty()
            && correct.is_empty()
            && recreate.is_empty()
            && delete.is_empty()
            && hand_over.is_empty()
            && *awaiting_requests == 0
            && hold.is_none()
            && terminating.is_empty()
            && pending_namespace.is_empty()
            && unread.is_empty()
            && problems.is_empty()
    }
}
