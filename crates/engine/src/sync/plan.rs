//! Decides the writes and deletions for a commit from its objects, the inventory and the live objects.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Arc;

use super::arrivals::Arrivals;
use super::decide::{Decider, ObjectDecision, defined_kind};
use super::input::{SyncInput, Withheld};
use super::ownership::OWNED_BY_CONFIG_REPO;
use super::prune;
use super::writes::{Apply, SyncPlan, Terminating, Unhealthy};
use super::{Comparisons, Desired, ObjectId};
use crate::health::ObjectHealth;
use crate::order::{HUB_STAGES, hub_stage};
use object::{Object, ObjectRef};

/// The applies of a commit by stage, and the unfinished stages.
#[derive(Default)]
struct Stages<'a> {
    applies: BTreeMap<u8, Vec<Apply<'a>>>,
    unfinished: BTreeSet<u8>,
}

impl<'a> Stages<'a> {
    fn add(&mut self, apply: Apply<'a>, takes_time: bool) {
        let stage = apply.stage;
        debug_assert!(stage < HUB_STAGES, "every stage has a number below");
        self.applies.entry(stage).or_default().push(apply);
        if takes_time {
            self.unfinished.insert(stage);
        }
    }

    /// Returns the applies of this plan, and those of later stages that wait for the health of an earlier one.
    fn end(mut self, waits_for_health: bool) -> (Vec<Vec<Apply<'a>>>, Vec<Apply<'a>>) {
        let first = self.unfinished.first().filter(|_| waits_for_health);
        let later = first.map(|first| self.applies.split_off(&(first + 1))).unwrap_or_default();
        (self.applies.into_values().collect(), later.into_values().flatten().collect())
    }
}

/// Decides the writes and deletions that bring the objects of a commit to the hub.
///
/// `live` reads an object from the hub. It fails if the kind has not been read; a failed read decides nothing.
/// `comparisons` come from earlier plans for the ConfigRepo.
#[expect(clippy::too_many_lines, reason = "the order of the decisions about a commit is read in one place")]
pub fn plan<'a, E: Display>(
    desired: &'a Desired,
    input: &SyncInput<'_>,
    comparisons: &mut Comparisons,
    live: impl Fn(&ObjectRef) -> Result<Option<Arc<Object>>, E>,
) -> SyncPlan<'a> {
    let mut plan = SyncPlan::default();
    comparisons.hold_for(&input.policy.ignore, &desired.objects);
    let defined = desired.objects.iter().filter_map(|object| defined_kind(object)).collect();
    let mut decider = Decider { input, comparisons, live: &live, defined };
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
            ObjectDecision::Apply { apply, takes_time } => applies.push((apply, takes_time)),
            ObjectDecision::Correct(correction) => plan.correct.push(correction),
            ObjectDecision::Recreate(deletion) => {
                let object = deletion.target.clone();
                plan.terminating.push(Terminating { object, since: None, finalizers: Vec::new() });
                plan.recreate.push(deletion);
            }
            ObjectDecision::NamespaceMissing => plan.pending_namespace.push(object.reference.clone()),
            ObjectDecision::Terminating(terminating) => plan.terminating.push(terminating),
            ObjectDecision::Unread(message) => plan.unread.push(message),
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
        // The commit is not applied, so the inventory is unchanged. If two ConfigRepos exchange objects, both
        // are refused until one of them hands over its objects.
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
    let withheld = withheld(input, &plan);
    let is_written = |apply: &Apply<'_>| !withheld.contains(&ObjectId::of(&apply.desired.reference));
    plan.correct.retain(|one| is_written(&one.apply));
    applies.retain(|(apply, _)| is_written(apply));
    let arrivals = Arrivals::of(&applies, input.are_permissions_needed);
    for (mut apply, takes_time) in applies {
        apply.arrives_with = arrivals.stage(&apply);
        plan.takes_time |= takes_time;
        stages.add(apply, takes_time);
    }
    (plan.apply, plan.later) = stages.end(input.policy.waits_for_health);
    plan.is_held = !plan.later.is_empty();
    if plan.is_held {
        plan.delete.clear();
        plan.recent.retain(|id, _| input.recent.contains_key(id));
    }
    plan.keep_record(input);
    debug_assert!(
        plan.apply
            .iter()
            .flatten()
            .chain(&plan.later)
            .all(|it| plan.inventory.contains_key(&ObjectId::of(&it.desired.reference))),
        "the inventory lists every object that is applied"
    );
    plan
}

/// Returns the objects that a plan with these deletions does not change.
fn withheld<'w>(input: &SyncInput<'w>, plan: &SyncPlan<'_>) -> BTreeSet<&'w ObjectId> {
    let Withheld { always, with_uninstalls } = input.withheld;
    let mut held = plan.hold.iter().flat_map(|hold| &hold.objects);
    let waits = plan.awaiting_requests > 0 || held.any(|id| input.policy.uninstalls.contains_key(id));
    always.iter().chain(with_uninstalls.iter().filter(|_| waits)).collect()
}
