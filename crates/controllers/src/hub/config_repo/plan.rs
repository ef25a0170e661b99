//! Plans the writes for a ConfigRepo and drafts its status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;

use super::commit::{self, Commit, Incomplete};
use super::draft::{Draft, recent_deletions};
use super::identity::RepoIdentity;
use super::index::RepoIndex;
use super::inventory::{self, Recorded};
use super::loosening::{Loosened, uninstalls};
use super::moves::Moves;
use super::policy::sync_policy;
use super::status::{Readiness, is_about, is_forbidden, record, seen};
use super::write::write;
use super::{approval, compare, deletion, depends, event, observe, permission, random_values};
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoMode};
use api::names::approval_reasons::PLAN_NOT_APPROVED;
use engine::sync::{self, Claimant, Desired, ObjectId, SyncInput, SyncPolicy};
use object::Key;
use object::tree::Checkout;
use reconcile::{Plan, Read, ReadErrorReason, Source, View};

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
    let mut draft = Draft::of(repo, now);
    if repo.spec.suspend {
        draft.suspend();
        return Ok(draft.finish());
    }
    let source = commit::source(repo, view);
    if let Some(source) = &source {
        draft.status.last_handled_reconcile_at.clone_from(&source.reconcile_at);
    }
    match (RepoIdentity::of(repo, view)?, source) {
        (Err(problem), _) => draft.refuse(&[problem]),
        (Ok(_), None) => draft.wait("", "Fetching", "the repository has not been fetched yet"),
        (Ok(identity), Some(source)) => reconcile_source(&mut draft, &source, &identity, view)?,
    }
    Ok(draft.finish())
}

/// Applies or observes the last fetched commit, and reports a failed fetch.
fn reconcile_source(
    draft: &mut Draft<'_>,
    source: &Source,
    identity: &RepoIdentity,
    view: &impl View,
) -> Read<()> {
    if let Some(checkout) = &source.checkout {
        reconcile_commit(draft, (checkout, source), identity, view)?;
        if let Some(readiness) = &draft.readiness {
            record(&mut draft.status, readiness, draft.now);
        }
    }
    if let Some(failure) = source.failure.as_ref().filter(|_| !draft.keeps_status) {
        let readiness = draft.readiness.take();
        draft.readiness = Some(Readiness::of_failed_fetch(failure, readiness, &draft.status));
    }
    Ok(())
}

fn reconcile_commit(
    draft: &mut Draft<'_>,
    (checkout, source): (&Arc<Checkout>, &Source),
    identity: &RepoIdentity,
    view: &impl View,
) -> Read<()> {
    let repo = draft.repo;
    draft.status.seen = Some(seen(repo, checkout, draft.now));
    draft.plan.events.extend(event::collision(repo, checkout));
    let recorded = Recorded::of(repo, view)?;
    let inventory = &recorded.objects;
    draft.unmet = depends::unmet(repo, checkout, view)?;
    let desired = match commit::completed(repo, checkout, view) {
        Ok(Ok(desired)) => desired,
        Ok(Err(incomplete)) => {
            draft.plan.observe = sync::kinds(&[], inventory);
            match incomplete {
                Incomplete::Problems(problems) => draft.refuse(&problems),
                Incomplete::Undrawn(releases) => random_values::draw(draft, &releases, source, identity),
            }
            return Ok(());
        }
        Err(error) if error.reason == ReadErrorReason::Pending => {
            draft.wait_for_rendering(&checkout.revision);
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    draft.plan.observe = sync::kinds(&desired.objects, inventory);
    let commit = Commit { checkout, desired: &desired, identity };
    if draft.unmet.is_none()
        && let Some(forbidden) = permission::missing(draft, &commit, view)
    {
        draft.status.held_plan.clear();
        draft.readiness = Some(forbidden);
        return Ok(());
    }
    let policy = match sync_policy(repo) {
        Ok(policy) => policy,
        Err(problem) => {
            draft.refuse(&[problem]);
            return Ok(());
        }
    };
    let is_observer = repo.spec.mode == ConfigRepoMode::Observe;
    let observed = is_observer.then_some(&desired);
    view.index(|index: &mut RepoIndex| index.observe(&draft.key, observed))?;
    if is_observer {
        observe::release(draft, &recorded, identity, view);
        match draft.unmet.take() {
            Some(waiting) => draft.readiness = Some(waiting),
            None => observe::observe(draft, &commit, &policy.ignore, view),
        }
        return Ok(());
    }
    match apply(draft, &commit, &recorded, policy, view) {
        Err(error) if error.reason == ReadErrorReason::Pending => {
            draft.wait_for_rendering(&checkout.revision);
            Ok(())
        }
        applied => applied,
    }
}

/// Plans the writes of a commit.
fn apply(
    draft: &mut Draft<'_>,
    commit: &Commit<'_>,
    recorded: &Recorded,
    policy: SyncPolicy,
    view: &impl View,
) -> Read<()> {
    let Commit { checkout, desired, .. } = *commit;
    let inventory = &recorded.objects;
    let others = Others::of(draft, desired, view);
    let Others { claimed, moves, missing_namespaces } = match others {
        Ok(others) => others,
        Err(error) => {
            draft.wait_for_read(&checkout.revision, &error.to_string());
            return Ok(());
        }
    };
    let compared = match compare::of_others(&draft.key, commit, &policy, view) {
        Ok(compared) => compared,
        Err(error) => {
            draft.wait_for_read(&checkout.revision, &error.to_string());
            return Ok(());
        }
    };
    let uninstalls = uninstalls(inventory, &desired.ids(), view, draft.now)?;
    let deletions = (inventory, &uninstalls);
    let given = draft.status.approved_deletions.as_ref();
    let approves_rest =
        given.is_some_and(|it| (&it.approval, &it.digest) == (&policy.approved, &desired.digest));
    let loosened = Loosened::of(draft.repo, (checkout, desired), deletions, view, draft.now)?;
    let unjudged = moves.unjudged.or_else(|| loosened.why_dropped());
    let withheld = loosened.withheld();
    let input = SyncInput {
        repo: &draft.key,
        inventory,
        claimed: &claimed,
        requested: &moves.requested,
        awaits_requests: moves.awaited.is_some(),
        unjudged: unjudged.as_deref(),
        are_permissions_needed: is_forbidden(draft.repo) && is_about(draft.repo, &checkout.revision),
        missing_namespaces: &missing_namespaces,
        withheld: &withheld,
        recent: &recent_deletions(&draft.status),
        now: draft.now,
        policy: &SyncPolicy { uninstalls, approves_rest, compared, ..policy },
    };
    let known = |index: &mut RepoIndex| index.take_comparisons(&draft.key);
    let mut comparisons = view.index(known)?;
    let mut sync = sync::plan(desired, &input, &mut comparisons, |what| view.observed(what));
    view.index(|index: &mut RepoIndex| index.keep_comparisons(&draft.key, comparisons))?;
    if let Some(hold) = &mut sync.hold {
        loosened.tell(hold);
    }
    draft.held_policies = loosened.why_held();
    draft.cycle = depends::waits_for_itself(draft.repo, &sync.unhealthy, view)?;
    draft.awaited = moves.awaited;
    draft.plan.step(deletion::unmark(desired, view)?);
    write(draft, commit, recorded, &sync);
    if draft.readiness.as_ref().is_some_and(|readiness| readiness.reason == PLAN_NOT_APPROVED) {
        let changes = || approval::changes(commit, inventory, &sync, view);
        draft.status.held_changes = sync.problems.is_empty().then(changes);
    }
    Ok(())
}

/// The objects of others that a plan depends on.
struct Others {
    claimed: BTreeMap<ObjectId, Vec<Claimant>>,
    moves: Moves,
    missing_namespaces: BTreeSet<String>,
}

impl Others {
    fn of(draft: &Draft<'_>, desired: &Desired, view: &impl View) -> Read<Self> {
        Ok(Self {
            claimed: inventory::claimed(&draft.key, desired, view)?,
            moves: Moves::of(draft.repo, &draft.status, view, draft.now)?,
            missing_namespaces: missing_namespaces(desired, view)?,
        })
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
