//! Turns the plan of the engine into steps and a status.

use super::commit::Commit;
use super::draft::Draft;
use super::health::{self, Found};
use super::inventory::Recorded;
use super::status::{Phase, Readiness, revision};
use super::{approval, deletion, drift, freeze, moves, terminating};
use api::names::approval_reasons;
use engine::plural::counted;
use engine::sync::{Apply, ApplyRule, SyncPlan};
use jiff::SignedDuration;
use object::duration::later;
use object::text::short_commit;
use reconcile::Action;

/// Delay before a refusal that depends on objects of others is checked again.
const REFUSAL_RECHECK: SignedDuration = SignedDuration::from_mins(1);

/// Plans the writes of a commit.
pub(super) fn write(draft: &mut Draft<'_>, commit: &Commit<'_>, recorded: &Recorded, sync: &SyncPlan<'_>) {
    let Commit { checkout, desired, identity } = *commit;
    if waits(draft, commit, recorded, sync) {
        return;
    }
    let records = draft.record(recorded, sync, &desired.digest);
    let dry_run = |one: &Apply<'_>| identity.dry_run(one, &draft.key);
    let checks: Vec<_> = checked_first(sync, &records).map(dry_run).collect();
    draft.plan.step(checks);
    draft.plan.step(records);
    draft.status.recreate.clear();
    draft.plan.step(sync.recreate.iter().map(|one| identity.delete(one)));
    let mut reached = 0;
    for stage in &sync.apply {
        let next = stage.first().map_or(reached, |first| first.stage);
        let arrived = sync.apply.iter().flatten().filter(|one| {
            one.stage >= next && one.arrives_with.is_some_and(|with| (reached..next).contains(&with))
        });
        draft.plan.step(arrived.map(|one| identity.dry_run(one, &draft.key)));
        reached = next;
        draft.plan.step(stage.iter().filter_map(|one| identity.take_over(one)));
        draft.plan.step(stage.iter().filter_map(|one| identity.end_tracking(one)));
        draft.plan.step(stage.iter().map(|one| identity.apply(one, &draft.key)));
    }
    let drift = drift::correct(draft, &sync.correct, identity);
    draft.plan.step(sync.hand_over.iter().map(|one| identity.hand_over(one)));
    draft.plan.step(sync.delete.iter().flatten().filter_map(deletion::mark_approved));
    for stage in &sync.delete {
        draft.plan.step(stage.iter().map(|one| identity.delete(one)));
    }
    record_applied(draft, commit, sync);
    let found = Found {
        unhealthy: &sync.unhealthy,
        is_held: sync.is_held,
        takes_time: sync.takes_time,
        is_whole: sync.pending_namespace.is_empty() && sync.terminating.is_empty(),
    };
    let waiting = health::judge(draft, commit, &found);
    draft.status.held_deletions = sync.hold.as_ref().map(deletion::held_deletions);
    if let Some(until) = sync.hold.as_ref().and_then(|hold| hold.until) {
        draft.plan.wake(until);
    }
    let name = short_commit(&checkout.revision);
    let held = draft.held_policies.take().map(|policies| {
        let message = format!("{name} is applied except {policies}");
        Readiness::new(Phase::Stalled, approval_reasons::POLICY_HELD, message)
    });
    let stuck = terminating::stuck(draft, &sync.terminating);
    let state = match waits_as_a_whole(commit, sync) {
        true => format!("no object of {name} is applied"),
        false => draft.applied(name),
    };
    draft.readiness = Some(match waiting {
        Some(waiting) if sync.is_held => waiting,
        waiting => moves::awaiting(draft, &state, sync.awaiting_requests)
            .unwrap_or_else(|| readiness(&state, commit, sync, held.or(drift).or(waiting).or(stuck))),
    });
    if draft.readiness.as_ref().is_some_and(|readiness| readiness.phase == Phase::Ready)
        && let Some(repeated) = drift::repeated(draft)
    {
        draft.readiness = Some(repeated);
    }
}

/// Records how much of a commit is applied after its writes.
fn record_applied(draft: &mut Draft<'_>, commit: &Commit<'_>, sync: &SyncPlan<'_>) {
    let Commit { checkout, desired, identity: _ } = *commit;
    if sync.is_held || waits_as_a_whole(commit, sync) {
        if !sync.apply.is_empty() || !sync.delete.is_empty() {
            draft.status.partial.clone_from(&draft.status.seen);
        }
        return;
    }
    let applied = revision(draft.status.applied.as_ref(), checkout, draft.repo, &desired.digest, draft.now);
    draft.status.applied = Some(applied);
    let lacks_objects = !sync.pending_namespace.is_empty() || draft.held_policies.is_some();
    draft.status.partial = draft.status.seen.clone().filter(|_| lacks_objects);
}

/// Returns true if every object of a commit waits for its namespace.
fn waits_as_a_whole(commit: &Commit<'_>, sync: &SyncPlan<'_>) -> bool {
    !sync.pending_namespace.is_empty() && sync.pending_namespace.len() == wanted(commit)
}

/// Returns the number of objects that a commit applies.
fn wanted(commit: &Commit<'_>) -> usize {
    commit.desired.objects.iter().filter(|one| one.apply != ApplyRule::Ignore).count()
}

/// Returns the objects to check in a dry run before any object of the commit is written. `records` are the writes
/// that record the inventory.
fn checked_first<'s>(sync: &'s SyncPlan<'_>, records: &[Action]) -> impl Iterator<Item = &'s Apply<'s>> {
    let applied = sync.apply.iter().flatten();
    let is_first_write = records.is_empty() && sync.recreate.is_empty();
    // A single write needs no dry run, and a plan that only waits for health has none to make.
    let is_single =
        applied.clone().count() + sync.later.len() <= 1 && !applied.clone().any(Apply::is_prepared);
    let is_needed = !is_first_write || (!sync.apply.is_empty() && !is_single);
    let judged = applied.chain(&sync.later).filter(|one| one.arrives_with.is_none());
    judged.filter(move |_| is_needed)
}

/// Returns true if a commit waits, and plans the writes that happen in the meantime.
fn waits(draft: &mut Draft<'_>, commit: &Commit<'_>, recorded: &Recorded, sync: &SyncPlan<'_>) -> bool {
    let Commit { checkout, desired, identity } = *commit;
    if let Some(seen) = draft.status.seen.as_mut().filter(|_| sync.unread.is_empty()) {
        seen.digest.clone_from(&desired.digest);
    }
    if !sync.problems.is_empty() {
        draft.plan.step(recorded.request(draft.repo, &sync.requests));
        draft.plan.wake(later(draft.now, REFUSAL_RECHECK));
    }
    let refused = || Readiness::refused(&sync.problems, &draft.status);
    let waiting = draft.unmet.clone().or_else(|| (!sync.problems.is_empty()).then(refused));
    if let (None, Some(first)) = (&waiting, sync.unread.first()) {
        draft.wait_for_read(&checkout.revision, first);
        return true;
    }
    draft.status.held_plan.clear();
    // Hand over removed objects even while the commit waits, because the ConfigRepo that it waits for may wait for
    // them.
    let would_write = waiting.is_none() || !sync.hand_over.is_empty();
    let hold = if would_write { on_hold(draft, commit) } else { None };
    if hold.is_none() && waiting.is_some() {
        draft.plan.step(sync.hand_over.iter().map(|one| identity.hand_over(one)));
    }
    let waits = hold.is_some() || waiting.is_some();
    if waits {
        if sync.problems.is_empty() && sync.unread.is_empty() {
            // The commit does not change these objects.
            drift::correct(draft, &sync.correct, identity);
        }
        draft.readiness = hold.or(waiting);
    }
    waits
}

/// Returns the readiness of a commit that waits for a person, the end of a freeze or an apply window.
fn on_hold(draft: &mut Draft<'_>, commit: &Commit<'_>) -> Option<Readiness> {
    approval::unmet(draft, commit).or_else(|| match freeze::unmet(draft, commit) {
        Ok(waiting) => waiting,
        Err(problem) => Some(Readiness::refused(&[problem], &draft.status)),
    })
}

/// Reports the progress of a commit that is being applied. `state` says how much is applied, and `waiting` what it
/// waits for.
fn readiness(state: &str, commit: &Commit<'_>, sync: &SyncPlan<'_>, waiting: Option<Readiness>) -> Readiness {
    if let Some(hold) = &sync.hold {
        return deletion::held(state, hold);
    }
    if let Some(waiting) = waiting {
        return waiting;
    }
    let name = short_commit(&commit.checkout.revision);
    if let Some(first) = sync.pending_namespace.first() {
        let more = sync.pending_namespace.len().saturating_sub(1);
        let others = if more > 0 { format!(" and {more} more") } else { String::new() };
        let (part, rest) = match waits_as_a_whole(commit, sync) {
            true => (format!("{state}, {first}{others} wait"), "They are"),
            false => (format!("{name} is applied except {first}{others}"), "The rest is"),
        };
        let message = format!(
            "{part}: namespace {} does not exist. {rest} applied when it does: the namespace of a cluster comes with the \
             cluster; add any other to the repository",
            first.key.namespace
        );
        return Readiness::new(Phase::Reconciling, "NamespaceNotFound", message);
    }
    if let Some(deleting) = terminating::progress(state, &sync.terminating) {
        return deleting;
    }
    let message = format!("{} of {name}", counted(wanted(commit), "object"));
    Readiness::new(Phase::Ready, "Applied", message)
}
