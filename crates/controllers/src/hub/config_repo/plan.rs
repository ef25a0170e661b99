//! Plans the writes for a ConfigRepo and drafts its status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::identity::RepoIdentity;
use super::index::RepoIndex;
use super::inventory::{self, Recorded};
use super::loosening::{Loosened, uninstalls};
use super::moves::Moves;
use super::policy::sync_policy;
use super::status::{Phase, Readiness, conclude, is_about, is_waiting, revision, still_applied};
use super::write::write;
use super::{approval, commit, deletion, depends, event, observe};
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoMode, ConfigRepoStatus, RecentDeletion};
use api::names::{self, approval_reasons::PLAN_NOT_APPROVED};
use engine::sync::{
    self, Claimant, Desired, Inventory, ObjectId, Problem, Recent, SyncInput, SyncPlan, SyncPolicy,
};
use object::text::short_commit;
use object::tree::Checkout;
use object::{Key, Metadata as _};
use reconcile::{Action, Plan, Read, ReadErrorReason, Source, SourceIdentity, StatusWrite, View};

/// Most objects of one list that a status names, such as those of held deletions.
pub(super) const MAX_LISTED: usize = 10;

/// Reasons of failed fetches that end without a person.
pub(super) const TRANSIENT: &[&str] =
    &["SourceUnreachable", "SourceTimeout", "SourceAbandoned", "GitCacheFailed"];

/// Plans the writes for a ConfigRepo.
///
/// # Errors
/// The commit or a lookup could not be read.
pub(super) fn plan(repo: &ConfigRepo, view: &impl View, now: Timestamp) -> Read<Plan> {
    if repo.metadata.deletion_timestamp.is_some() {
        return deletion::finalize(repo, view, now);
    }
    if let Some(finalizer) = deletion::missing_finalizer(repo) {
        return Ok(Plan { steps: vec![vec![finalizer]], ..Plan::default() });
    }
    let mut draft = Draft::of(repo, now);
    if repo.spec.suspend {
        return Ok(draft.finish());
    }
    match (RepoIdentity::of(repo, view)?, source(repo, view)) {
        (Err(problem), _) => draft.refuse(&[problem]),
        (Ok(_), None) => draft.wait("", "Fetching", "the repository has not been fetched yet"),
        (Ok(identity), Some(source)) => reconcile_source(&mut draft, &source, &identity, view)?,
    }
    Ok(draft.finish())
}

/// Returns the source of the present spec.
pub(super) fn source(repo: &ConfigRepo, view: &impl View) -> Option<Arc<Source>> {
    view.source(&Key::of(repo)).filter(|source| source.identity == SourceIdentity::of(repo))
}

/// A plan, and the status after its execution.
pub(super) struct Draft<'a> {
    pub(super) repo: &'a ConfigRepo,
    pub(super) key: Key,
    pub(super) now: Timestamp,
    pub(super) status: ConfigRepoStatus,
    pub(super) readiness: Option<Readiness>,
    /// Whether the plan waits for a read, and the result for a commit that was judged before stays.
    keeps_status: bool,
    /// Why the commit waits for the ConfigRepos that it depends on.
    pub(super) unmet: Option<Readiness>,
    /// A ConfigRepo that will soon have requested what it wants, and the end of the wait for it.
    pub(super) awaited: Option<(Key, Timestamp)>,
    /// The policies of the commit that wait for the deletions of another ConfigRepo.
    pub(super) held_policies: Option<String>,
    /// The ConfigRepos that wait for each other's health, if it is one of them.
    pub(super) cycle: Option<Vec<String>>,
    pub(super) plan: Plan,
}

impl<'a> Draft<'a> {
    /// Starts with the status as it is.
    pub(super) fn of(repo: &'a ConfigRepo, now: Timestamp) -> Self {
        let mut status = repo.status.clone().unwrap_or_default();
        status.last_handled_reconcile_at =
            repo.annotation(names::RECONCILE_AT_ANNOTATION).unwrap_or_default().to_owned();
        Self {
            repo,
            key: Key::of(repo),
            now,
            status,
            readiness: None,
            keeps_status: false,
            unmet: None,
            awaited: None,
            held_policies: None,
            cycle: None,
            plan: Plan::default(),
        }
    }

    /// Records the inventory and the deletions. A step of its own does it before objects are created and
    /// deleted.
    pub(super) fn record(&mut self, recorded: &Recorded, sync: &SyncPlan<'_>) {
        let SyncPlan { inventory, recent, .. } = sync;
        let of_inventory = recorded.record(self.repo, inventory, &Inventory::new());
        let deletions = self.record_deletions(recent);
        self.plan.step(of_inventory.into_iter().chain(deletions));
        self.status.objects = Some(i32::try_from(inventory.len()).unwrap_or(i32::MAX));
        self.status.inventory.clear();
    }

    /// Returns the write that records new deletions. Those that count no longer leave the record with the
    /// next write of the status.
    fn record_deletions(&mut self, recent: &Recent) -> Option<Action> {
        let before = recent_deletions(&self.status);
        let entry = |(id, at): (&ObjectId, &Timestamp)| RecentDeletion {
            object: id.path(),
            time: Time(*at),
            unknown: Default::default(),
        };
        self.status.recent_deletions = recent.iter().map(entry).collect();
        let is_new = recent.keys().any(|id| !before.contains_key(id));
        let mut new = self.repo.clone();
        new.status.get_or_insert_default().recent_deletions.clone_from(&self.status.recent_deletions);
        let write = is_new.then(|| StatusWrite::between(self.repo, &new)).flatten();
        write.map(|write| write.action())
    }

    /// Reports a wait. After a restart, the result for a commit that was judged before stays; an earlier wait
    /// for it does not.
    pub(super) fn wait(&mut self, commit: &str, reason: &str, message: &str) {
        if is_about(self.repo, commit) && !is_waiting(self.repo) {
            self.keeps_status = true;
        } else {
            self.readiness = Some(Readiness::new(Phase::Reconciling, reason, message));
        }
    }

    /// Reports that no commit is applied, and why.
    pub(super) fn refuse(&mut self, problems: &[Problem]) {
        self.status.held_plan.clear();
        self.readiness = Some(Readiness::refused(problems, self.status.applied.as_ref()));
    }

    /// Reports that a commit is being rendered.
    fn wait_for_rendering(&mut self, commit: &str) {
        let applied = still_applied(self.status.applied.as_ref());
        self.wait(commit, "Rendering", &format!("{} is being rendered; {applied}", short_commit(commit)));
    }

    pub(super) fn finish(mut self) -> Plan {
        if self.status.held_plan.is_empty() {
            self.status.held_changes = None;
        }
        if let Some(readiness) = &self.readiness {
            let generation = self.repo.metadata.generation.unwrap_or_default();
            conclude(&mut self.status, generation, readiness, self.now);
            self.plan.events.extend(event::event(self.repo, &self.status, readiness));
        }
        let mut new = self.repo.clone();
        new.status = Some(self.status);
        self.plan.status = StatusWrite::between(self.repo, &new);
        self.plan
    }
}

/// Applies or observes the commit that was fetched last, and reports a failed fetch.
fn reconcile_source(
    draft: &mut Draft<'_>,
    source: &Source,
    identity: &RepoIdentity,
    view: &impl View,
) -> Read<()> {
    if let Some(checkout) = &source.checkout {
        reconcile_commit(draft, checkout, identity, view)?;
    }
    let Some(failure) = &source.failure else { return Ok(()) };
    // A commit that cannot be applied matters more than a remote that cannot be reached.
    if draft.keeps_status
        || draft.readiness.as_ref().is_some_and(|readiness| readiness.phase == Phase::Stalled)
    {
        return Ok(());
    }
    let phase = if TRANSIENT.contains(&failure.reason) { Phase::Reconciling } else { Phase::Stalled };
    let message = format!("{}; {}", failure.message, still_applied(draft.status.applied.as_ref()));
    draft.readiness = Some(Readiness::new(phase, failure.reason, message));
    Ok(())
}

fn reconcile_commit(
    draft: &mut Draft<'_>,
    checkout: &Arc<Checkout>,
    identity: &RepoIdentity,
    view: &impl View,
) -> Read<()> {
    let repo = draft.repo;
    // Under another spec, the commit is judged again.
    let seen = draft.status.seen.take();
    let judged = seen.as_ref().filter(|_| is_about(repo, &checkout.revision));
    let judged = judged.map(|seen| seen.digest.clone()).unwrap_or_default();
    draft.status.seen = Some(revision(seen.as_ref(), checkout, repo, &judged, draft.now));
    let recorded = Recorded::of(repo, view)?;
    let inventory = &recorded.objects;
    draft.unmet = depends::unmet(repo, checkout, view)?;
    let desired = match commit::completed(repo, checkout, view) {
        Ok(Ok(desired)) => desired,
        Ok(Err(problems)) => {
            draft.plan.observe = sync::kinds(&[], inventory);
            draft.refuse(&problems);
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
    let policy = match sync_policy(repo) {
        Ok(policy) => policy,
        Err(problem) => {
            draft.refuse(&[problem]);
            return Ok(());
        }
    };
    if repo.spec.mode == ConfigRepoMode::Observe {
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
            draft.wait(&checkout.revision, "Waiting", &error.to_string());
            return Ok(());
        }
    };
    let uninstalls = uninstalls(inventory, &desired.ids(), view)?;
    let loosened = Loosened::of(draft.repo, (checkout, desired), (inventory, &uninstalls), view)?;
    let unjudged = moves.unjudged.or_else(|| loosened.why_dropped());
    let withheld = loosened.withheld();
    let input = SyncInput {
        repo: &draft.key,
        inventory,
        claimed: &claimed,
        requested: &moves.requested,
        awaits_requests: moves.awaited.is_some(),
        unjudged: unjudged.as_deref(),
        missing_namespaces: &missing_namespaces,
        withheld: &withheld,
        recent: &recent_deletions(&draft.status),
        now: draft.now,
        policy: &SyncPolicy { uninstalls, ..policy },
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

/// Returns the record of deletions.
fn recent_deletions(status: &ConfigRepoStatus) -> Recent {
    let deletions = &status.recent_deletions;
    deletions.iter().filter_map(|it| Some((ObjectId::from_path(&it.object)?, it.time.0))).collect()
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

/// A completed commit, and the identity that applies it.
#[derive(Clone, Copy)]
pub(super) struct Commit<'a> {
    pub(super) checkout: &'a Arc<Checkout>,
    pub(super) desired: &'a Desired,
    pub(super) identity: &'a RepoIdentity,
}

/// Returns the namespaces that objects wait for.
fn missing_namespaces(desired: &Desired, view: &impl View) -> Read<BTreeSet<String>> {
    let mut missing = BTreeSet::new();
    for name in desired.required_namespaces() {
        if view.get::<Namespace>(&Key::cluster(name.as_str()))?.is_none() {
            missing.insert(name);
        }
    }
    Ok(missing)
}
