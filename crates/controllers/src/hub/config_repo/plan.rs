//! Plans the writes for a ConfigRepo: reads its commit, compares it with the hub, decides how far it goes, and
//! reports.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;

use super::depends;
use super::drift::Drift;
use super::gate::Gate;
use super::index::RepoIndex;
use super::loosening::{Loosened, uninstalls};
use super::moves::Moves;
use super::policy::sync_policy;
use super::read::Commit;
use super::report::{Found, Outcome, Planned, report};
use super::status::{is_about, is_forbidden, recent_deletions, seen};
use super::{approval, commit, compare, deletion, inventory, observe, permission, write};
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoMode};
use engine::rollout::ApplyWindows;
use engine::sync::{self, Desired, Problem, SyncInput, SyncPlan, SyncPolicy};
use object::Key;
use reconcile::{Plan, Read, ReadError, View};

/// Plans the writes for a ConfigRepo.
///
/// # Errors
/// Fails if the commit or a lookup could not be read.
pub(super) fn plan(repo: &ConfigRepo, view: &impl View, now: Timestamp) -> Read<Plan> {
    if repo.metadata.deletion_timestamp.is_some() {
        return deletion::finalize(repo, view, now);
    }
    if let Some(finalizer) = deletion::missing_finalizer(repo) {
        return Ok(Plan { steps: vec![vec![finalizer]], ..Plan::default() });
    }
    let source = commit::source(repo, view).filter(|_| !repo.spec.suspend);
    let source = source.as_deref();
    let commit = Commit::read(repo, source, view);
    let judged = commit.as_ref().map_err(Gate::clone).and_then(|commit| judge(commit, view, now));
    let (gate, found) = match judged {
        Ok(judged) => judged,
        Err(Gate::Failed(error)) => return Err(error),
        Err(gate) => (gate, Found::Nothing),
    };
    let charts = commit.as_ref().ok().map(|commit| commit.charts.as_slice());
    let outcome = Outcome { repo, now, source, charts, gate, found };
    let plan = report(&outcome);
    Ok(match &commit {
        Ok(commit) => Plan { steps: write::steps(commit, &outcome), observe: commit.kinds(), ..plan },
        Err(_) => plan,
    })
}

/// Compares a commit with the hub, and decides how far it goes.
fn judge<'a>(commit: &'a Commit<'_>, view: &impl View, now: Timestamp) -> Result<(Gate, Found<'a>), Gate> {
    if let Some(gate) = &commit.incomplete {
        return Err(gate.clone());
    }
    if commit.unmet.is_none() {
        permission::check(commit, view)?;
    }
    let policy = sync_policy(commit.repo).map_err(|problem| Gate::Refused(vec![problem]))?;
    let observed = (commit.repo.spec.mode == ConfigRepoMode::Observe).then_some(&commit.desired);
    let key = Key::of(commit.repo);
    view.index(|index: &mut RepoIndex| index.observe(&key, observed))?;
    if observed.is_none() {
        return apply(commit, policy, view, now);
    }
    let release = observe::release(commit, view);
    let observation = match &commit.unmet {
        Some(unmet) => Err(unmet.clone()),
        None => observe::observe(commit, &policy.ignore, view),
    };
    Ok(match observation {
        Ok(observation) => (Gate::Open, Found::Observed { release, observation: Some(observation) }),
        Err(gate) => (gate, Found::Observed { release, observation: None }),
    })
}

/// Plans the writes of a commit.
fn apply<'a>(
    commit: &'a Commit<'_>,
    policy: SyncPolicy,
    view: &impl View,
    now: Timestamp,
) -> Result<(Gate, Found<'a>), Gate> {
    let Commit { repo, checkout, desired, .. } = commit;
    let (key, inventory) = (Key::of(*repo), &commit.recorded.objects);
    let reading = |error: ReadError| Gate::Reading(error.to_string());
    let claimed = inventory::claimed(&key, desired, view).map_err(reading)?;
    let moves = Moves::of(repo, Some(&seen(repo, checkout, now)), view, now).map_err(reading)?;
    let missing_namespaces = missing_namespaces(desired, view).map_err(reading)?;
    let compared = compare::of_others(commit, &policy, view).map_err(reading)?;
    let uninstalls = uninstalls(inventory, &desired.ids(), view, now)?;
    let loosened = Loosened::of(repo, (checkout, desired), (inventory, &uninstalls), view, now)?;
    let unjudged = moves.unjudged.or_else(|| loosened.why_dropped());
    let given = repo.status.as_ref().and_then(|status| status.approved_deletions.as_ref());
    let approves_rest =
        given.is_some_and(|it| (&it.approval, &it.digest) == (&policy.approved, &desired.digest));
    let input = SyncInput {
        repo: &key,
        inventory,
        claimed: &claimed,
        requested: &moves.requested,
        awaits_requests: moves.awaited.is_some(),
        unjudged: unjudged.as_deref(),
        are_permissions_needed: is_forbidden(repo) && is_about(repo, &checkout.revision),
        missing_namespaces: &missing_namespaces,
        withheld: &loosened.withheld(),
        recent: &recent_deletions(repo.status.as_ref()),
        now,
        policy: &SyncPolicy { uninstalls, approves_rest, compared, ..policy },
    };
    let mut comparisons = view.index(|index: &mut RepoIndex| index.take_comparisons(&key))?;
    let mut sync = sync::plan(desired, &input, &mut comparisons, |what| view.observed(what));
    view.index(|index: &mut RepoIndex| index.keep_comparisons(&key, comparisons))?;
    if let Some(hold) = &mut sync.hold {
        loosened.tell(hold);
    }
    let gate = decide(commit, &sync, view, now);
    let is_judged = sync.problems.is_empty() && sync.unread.is_empty();
    let drift = is_judged.then(|| Drift::of(repo, &commit.source.reconcile_at, &sync.correct, now));
    let planned = Planned {
        unmark: deletion::unmark(desired, view)?,
        cycle: depends::waits_for_itself(repo, &sync.unhealthy, view)?,
        held_policies: loosened.why_held(),
        awaited: moves.awaited,
        commit,
        sync,
        drift,
    };
    Ok((gate, Found::Planned(Box::new(planned))))
}

/// Decides how far a commit goes that was compared with the hub. The first reason wins.
fn decide(commit: &Commit<'_>, sync: &SyncPlan<'_>, view: &impl View, now: Timestamp) -> Gate {
    let gate = match (&commit.unmet, sync.problems.as_slice(), sync.unread.first()) {
        (Some(unmet), _, _) => unmet.clone(),
        (None, [], None) => Gate::Open,
        (None, [], Some(unread)) => return Gate::Reading(unread.clone()),
        (None, problems, _) => Gate::Refused(problems.to_vec()),
    };
    // Removed objects are handed over even while the commit waits, because the ConfigRepo that it waits for may wait
    // for them. These writes need the approval and the windows too.
    if !matches!(gate, Gate::Open) && sync.hand_over.is_empty() {
        return gate;
    }
    approval::gate(commit, sync, view).or_else(|| windows(commit, now)).unwrap_or(gate)
}

/// Returns the gate of a commit that waits for a window. A commit whose objects are already applied changes nothing.
fn windows(commit: &Commit<'_>, now: Timestamp) -> Option<Gate> {
    match ApplyWindows::read(&commit.repo.spec) {
        Err(why) => Some(Gate::InvalidWindows(vec![Problem::of_commit("InvalidSpec", why.to_string())])),
        Ok(_) if commit.is_applied() => None,
        Ok(windows) => windows.wait(now).map(Gate::Frozen),
    }
}

/// Returns the missing namespaces that objects wait for.
fn missing_namespaces(desired: &Desired, view: &impl View) -> Read<BTreeSet<String>> {
    let mut missing = BTreeSet::new();
    for name in desired.required_namespaces() {
        if view.get::<Namespace>(&Key::cluster(name.as_str()))?.is_none() {
            missing.insert(name);
        }
    }
    Ok(missing)
}
