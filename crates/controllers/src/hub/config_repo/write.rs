//! Turns the outcome of a plan into steps.

use super::gate::Gate;
use super::read::Commit;
use super::report::{Found, Outcome, Planned, record_deletions};
use super::status::recent_deletions;
use super::{deletion, random_values};
use engine::sync::{Apply, Inventory, SyncPlan};
use object::Key;
use reconcile::{Action, Plan, StatusWrite};

/// Returns the writes for a commit.
pub(super) fn steps(commit: &Commit<'_>, outcome: &Outcome<'_>) -> Vec<Vec<Action>> {
    let mut plan = Plan::nothing();
    match (&outcome.gate, &outcome.found) {
        (Gate::Drawing(_), _) => {
            let secret = random_values::secret(commit.repo, commit.source);
            plan.step(secret.map(|secret| commit.identity.create(secret)));
        }
        (Gate::Open, Found::Planned(planned)) => apply(&mut plan, planned),
        (gate, Found::Planned(planned)) => wait(&mut plan, planned, gate),
        (_, Found::Observed { release: Some(release), observation: _ }) => {
            plan.step(release.hand_over.iter().map(|one| commit.identity.hand_over(one)));
            plan.step(commit.recorded.record(commit.repo, &release.inventory, &Inventory::new()));
        }
        (_, Found::Nothing | Found::Observed { .. } | Found::Deleting { .. }) => {}
    }
    plan.steps
}

/// Plans the writes that happen while a commit waits.
fn wait(plan: &mut Plan, planned: &Planned<'_>, gate: &Gate) {
    let Planned { sync, commit, unmark, .. } = planned;
    plan.step(unmark.iter().cloned());
    if !sync.problems.is_empty() {
        plan.step(commit.recorded.request(commit.repo, &sync.requests));
    }
    if let Gate::DependencyCycle(_) | Gate::DependencyNotReady(..) | Gate::Refused(_) = gate {
        plan.step(sync.hand_over.iter().map(|one| commit.identity.hand_over(one)));
    }
    correct(plan, planned);
}

/// Plans the writes of a commit. Its inventory and its deletions are recorded before objects are created and
/// deleted.
fn apply(plan: &mut Plan, planned: &Planned<'_>) {
    let Planned { sync, commit, unmark, .. } = planned;
    let (identity, key) = (&commit.identity, Key::of(commit.repo));
    let mut records = commit.recorded.record(commit.repo, &sync.inventory, &Inventory::new());
    records.extend(deletions(commit, sync));
    plan.step(unmark.iter().cloned());
    plan.step(checked_first(sync, &records).map(|one| identity.dry_run(one, &key)));
    plan.step(records);
    plan.step(sync.recreate.iter().map(|one| identity.delete(one)));
    let mut reached = 0;
    for stage in &sync.apply {
        let next = stage.first().map_or(reached, |first| first.stage);
        let arrived = sync.apply.iter().flatten().filter(|one| {
            one.stage >= next && one.arrives_with.is_some_and(|with| (reached..next).contains(&with))
        });
        plan.step(arrived.map(|one| identity.dry_run(one, &key)));
        reached = next;
        plan.step(stage.iter().filter_map(|one| identity.take_over(one)));
        plan.step(stage.iter().filter_map(|one| identity.end_tracking(one)));
        plan.step(stage.iter().map(|one| identity.apply(one, &key)));
    }
    correct(plan, planned);
    plan.step(sync.hand_over.iter().map(|one| identity.hand_over(one)));
    plan.step(sync.delete.iter().flatten().filter_map(deletion::mark_approved));
    for stage in &sync.delete {
        plan.step(stage.iter().map(|one| identity.delete(one)));
    }
}

/// Reapplies the objects whose correction is due.
fn correct(plan: &mut Plan, planned: &Planned<'_>) {
    let Planned { sync, commit, drift, .. } = planned;
    let due = drift.as_ref().map(|drift| drift.due(&sync.correct)).unwrap_or_default();
    plan.step(due.iter().filter_map(|one| commit.identity.take_over(one)));
    plan.step(due.iter().map(|one| commit.identity.apply(one, &Key::of(commit.repo))));
}

/// Records new deletions, or a person's approval of them. Expired deletions, and an approval of completed
/// deletions, are removed with the next status write.
fn deletions(commit: &Commit<'_>, sync: &SyncPlan<'_>) -> Option<Action> {
    let mut new = commit.repo.clone();
    let status = new.status.get_or_insert_default();
    let (before, approved) = (recent_deletions(Some(status)), status.approved_deletions.clone());
    record_deletions(status, commit, sync);
    let is_approval_new = sync.is_approved && status.approved_deletions != approved;
    let is_new = is_approval_new || sync.recent.keys().any(|id| !before.contains_key(id));
    let write = is_new.then(|| StatusWrite::between(commit.repo, &new)).flatten();
    write.map(|write| write.action())
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
