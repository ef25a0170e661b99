//! Decides the writes and deletions of a commit, from its objects, the inventory and the live objects.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Arc;

use super::argo::EndTracking;
use super::health::{Health, takes_time};
use super::ownership::{OWNED_BY_CONFIG_REPO, Ownership, changed_guard, is_self, ownership};
use super::{
    ApplyRule, Budget, Comparisons, Deletion, DeletionHold, Desired, DesiredObject, HandOver, Inventory,
    ObjectId, Problem, Takeover, prune,
};
use crate::order::{HUB_STAGES, hub_stage};
use api::names;
use object::fields::is_as_applied;
use object::{Key, Object, ObjectRef};

/// The input of a plan beside the commit.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The ConfigRepo.
    pub repo: &'a Key,
    /// The objects that it owns so far.
    pub inventory: &'a Inventory,
    /// The objects that other ConfigRepos own.
    pub claimed: &'a BTreeMap<ObjectId, Key>,
    /// The objects that other ConfigRepos of the same identity want to have from it.
    pub requested: &'a BTreeMap<ObjectId, Key>,
    /// Whether another ConfigRepo may still request an object of the commit. Deletions wait meanwhile.
    pub awaits_requests: bool,
    /// The missing namespaces of its objects.
    pub missing_namespaces: &'a BTreeSet<String>,
    /// The decisions of its user.
    pub policy: &'a SyncPolicy,
}

/// The decisions of the user of a ConfigRepo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncPolicy {
    /// Decides about objects that others created.
    pub takeover: Takeover,
    /// Compares no Secrets of others: the user may not learn what the operator can read.
    pub is_blind_to_secrets: bool,
    /// Deletes the objects that leave the repository.
    pub prune: bool,
    /// Limits the deletions without approval; `None` sets no limit.
    pub budget: Option<Budget>,
    /// The approval of deletions above the budget; empty if there is none.
    pub approved: String,
    /// How many clusters lose an add-on when an object is deleted, for the objects with which more clusters
    /// lose it than may at once.
    pub uninstalls: BTreeMap<ObjectId, usize>,
    /// Applies a stage when the objects of the stages before it are healthy.
    pub waits_for_health: bool,
}

/// An object that is as the commit says and not healthy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unhealthy {
    /// The object.
    pub object: ObjectRef,
    /// Its health.
    pub health: Health,
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
    pub correct: Vec<Apply<'a>>,
    /// Objects that left the repository, in the reverse order of stages.
    pub delete: Vec<Vec<Deletion>>,
    /// Objects that left the repository and that other ConfigRepos have requested or Argo CD applies.
    pub hand_over: Vec<HandOver>,
    /// Number of deletions that wait until other ConfigRepos have judged the commit.
    pub awaiting_requests: usize,
    /// Deletions that wait for approval.
    pub hold: Option<DeletionHold>,
    /// Number of objects that are being deleted; the next plan follows when they are gone.
    pub terminating: usize,
    /// Objects that wait for a namespace that the commit does not create. They do not delay the others.
    pub pending_namespace: Vec<ObjectRef>,
    /// Failed reads; there is no decision until they succeed.
    pub unread: Vec<String>,
    /// Objects that may not be applied; if there are any, no object is applied.
    pub problems: Vec<Problem>,
    /// Those of them that another ConfigRepo owns.
    pub requests: Inventory,
}

/// Decides the writes and deletions that bring the objects of a commit to the hub.
///
/// `live` reads an object of the hub. It fails if the kind has not been read; a failed read decides nothing.
/// `comparisons` are those of earlier plans for the ConfigRepo.
pub fn plan<'a, E: Display>(
    desired: &'a Desired,
    input: &Input<'_>,
    comparisons: &mut Comparisons,
    live: impl Fn(&ObjectRef) -> Result<Option<Arc<Object>>, E>,
) -> SyncPlan<'a> {
    let mut plan = SyncPlan::default();
    comparisons.forget(&desired.objects);
    let mut decider = Decider { input, comparisons, live: &live, defined: defined_kinds(desired) };
    let mut stages: BTreeMap<u8, Vec<Apply<'a>>> = BTreeMap::new();
    let mut unfinished: BTreeSet<u8> = BTreeSet::new();
    let mut left: BTreeSet<ObjectId> = BTreeSet::new();
    for object in &desired.objects {
        let stage = hub_stage(&object.reference.gvk);
        match decider.decide(object) {
            ObjectDecision::Unchanged(Health::Current) => {}
            ObjectDecision::Leave => {
                left.insert(ObjectId::of(&object.reference));
            }
            ObjectDecision::Unchanged(health) => {
                unfinished.insert(stage);
                plan.unhealthy.push(Unhealthy { object: object.reference.clone(), health });
            }
            ObjectDecision::Apply { apply, takes_time } => {
                stages.entry(stage).or_default().push(apply);
                if takes_time {
                    unfinished.insert(stage);
                    plan.takes_time = true;
                }
            }
            ObjectDecision::Correct(apply) => plan.correct.push(apply),
            ObjectDecision::NamespaceMissing => plan.pending_namespace.push(object.reference.clone()),
            ObjectDecision::Terminating => plan.terminating += 1,
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
    debug_assert!(stages.keys().all(|stage| *stage < HUB_STAGES), "every stage has a number below");
    plan.unread.dedup();
    if !plan.problems.is_empty() || !plan.unread.is_empty() {
        // There is no write, so the inventory stays as it is.
        return SyncPlan {
            inventory: input.inventory.clone(),
            problems: plan.problems,
            requests: plan.requests,
            unread: plan.unread,
            ..SyncPlan::default()
        };
    }
    if let Some(first) = unfinished.first().filter(|_| input.policy.waits_for_health) {
        plan.is_held = stages.keys().any(|stage| stage > first);
        stages.retain(|stage, _| stage <= first);
    }
    plan.apply = stages.into_values().collect();
    let named = desired.objects.iter().map(|d| (ObjectId::of(&d.reference), d.reference.gvk.version.clone()));
    // An object that is left to others is ours only if we created it.
    let is_ours = |id: &ObjectId| !left.contains(id) || input.inventory.contains_key(id);
    plan.inventory = named.filter(|(id, _)| is_ours(id)).collect();
    prune::prune(input, &live, &mut plan);
    if plan.is_held {
        plan.delete.clear();
    }
    debug_assert!(
        plan.apply
            .iter()
            .flatten()
            .all(|it| plan.inventory.contains_key(&ObjectId::of(&it.desired.reference))),
        "the inventory lists every object that is applied"
    );
    plan
}

enum ObjectDecision<'a> {
    /// Its annotation leaves it to others.
    Leave,
    Unchanged(Health),
    Apply {
        apply: Apply<'a>,
        takes_time: bool,
    },
    Correct(Apply<'a>),
    NamespaceMissing,
    Terminating,
    Unread(String),
    Refuse(Problem),
}

/// Decides about one object after the other.
struct Decider<'a, 'p, L> {
    input: &'p Input<'p>,
    comparisons: &'p mut Comparisons,
    /// Reads an object of the hub.
    live: &'p L,
    /// Group and kind of the definitions in the commit.
    defined: BTreeSet<(&'a str, &'a str)>,
}

impl<'a, E: Display, L: Fn(&ObjectRef) -> Result<Option<Arc<Object>>, E>> Decider<'a, '_, L> {
    fn decide(&mut self, desired: &'a DesiredObject) -> ObjectDecision<'a> {
        let input = self.input;
        let gvk = &desired.reference.gvk;
        if desired.apply == ApplyRule::Ignore {
            return ObjectDecision::Leave;
        }
        if input.missing_namespaces.contains(&desired.reference.key.namespace) {
            return ObjectDecision::NamespaceMissing;
        }
        let is_self = is_self(input.repo, &desired.reference);
        let take = |force, end_tracking, live: Option<&Object>| ObjectDecision::Apply {
            apply: Apply { desired, force, end_tracking },
            takes_time: !is_self && takes_time(gvk, live),
        };
        let write = |force, live: Option<&Object>| take(force, None, live);
        let live = match (self.live)(&desired.reference) {
            Ok(live) => live,
            // The definition is applied in an earlier stage. Without force, the apply takes no fields of
            // others.
            Err(_) if self.defined.contains(&(gvk.group.as_str(), gvk.kind.as_str())) => {
                return write(false, None);
            }
            Err(error) => {
                return ObjectDecision::Unread(format!(
                    "{error}; if this stays, is the definition of {gvk} installed?"
                ));
            }
        };
        if desired.apply == ApplyRule::IfNotPresent && live.is_some() {
            return ObjectDecision::Leave;
        }
        if let Some(health) = live.as_ref().and_then(|live| self.comparisons.unchanged(desired, live)) {
            return ObjectDecision::Unchanged(health);
        }
        if let Some(live) = &live
            && let Some(field) = changed_guard(input.repo, &desired.object, live)
        {
            let message = format!(
                "{} changes its own spec.{field}, and a repository may not decide that for itself; change it on the hub first",
                desired.reference
            );
            return ObjectDecision::Refuse(Problem {
                reason: "NotAllowed",
                message,
                origin: desired.origin.clone(),
            });
        }
        match ownership(input, desired, live.as_deref()) {
            Ownership::Refused { reason, message } => {
                ObjectDecision::Refuse(Problem { reason, message, origin: desired.origin.clone() })
            }
            Ownership::Available { force, tracking } => {
                let end = tracking.zip(live.as_deref());
                take(force, EndTracking::of(end, &desired.object), live.as_deref())
            }
            Ownership::Ours => match live {
                Some(live) if live.is_terminating() => ObjectDecision::Terminating,
                Some(live) if !desired.is_last_applied(&live) => write(true, Some(&live)),
                Some(live) if is_as_applied(&live, &desired.object, names::CONFIG_REPO_MANAGER) => {
                    // A ConfigRepo is healthy when this plan is done, so it does not wait for itself.
                    let health = if is_self { Health::Current } else { Health::of(&live) };
                    self.comparisons.remember(desired, &live, &health);
                    ObjectDecision::Unchanged(health)
                }
                Some(_) => ObjectDecision::Correct(Apply { desired, force: true, end_tracking: None }),
                None => write(true, None),
            },
        }
    }
}

impl DesiredObject {
    /// Whether the digest on a live object says that this version of the object was applied last.
    pub fn is_last_applied(&self, live: &Object) -> bool {
        live.annotations().get(names::APPLIED_DIGEST_ANNOTATION) == Some(&self.digest.as_str())
    }
}

/// Lists group and kind of the definitions in a commit.
fn defined_kinds(desired: &Desired) -> BTreeSet<(&str, &str)> {
    let is_definition = |d: &&Arc<DesiredObject>| d.reference.gvk.kind == "CustomResourceDefinition";
    let definitions = desired.objects.iter().filter(is_definition);
    definitions
        .filter_map(|d| {
            let group = d.object.at(&["spec", "group"])?.as_str()?;
            let kind = d.object.at(&["spec", "names", "kind"])?.as_str()?;
            Some((group, kind))
        })
        .collect()
}

impl SyncPlan<'_> {
    /// Whether the hub is as the repository says.
    pub fn is_settled(&self) -> bool {
        let Self {
            inventory: _,
            // They are as the commit says, and their own controllers make them healthy.
            unhealthy: _,
            takes_time: _,
            is_held,
            apply,
            correct,
            delete,
            hand_over,
            awaiting_requests,
            hold,
            terminating,
            pending_namespace,
            unread,
            problems,
            requests: _,
        } = self;
        !is_held
            && apply.is_empty()
            && correct.is_empty()
            && delete.is_empty()
            && hand_over.is_empty()
            && *awaiting_requests == 0
            && hold.is_none()
            && *terminating == 0
            && pending_namespace.is_empty()
            && unread.is_empty()
            && problems.is_empty()
    }
}
