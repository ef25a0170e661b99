//! Plays a commit on a copy of a hub.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::changes;
use super::error::PreviewError;
use super::fleet::{PreviewWorkload, all, get};
use super::people::{approve, approve_plans};
use super::results::{ApprovalRequest, CommitWindow, HeldObjects, Preview, RepoPreview, Verdict};
use super::runner::Runner;
use super::scope::{Played, PreviewScope};
use super::snapshot::HubSnapshot;
use super::spokes::Spokes;
use super::timeline::Timeline;
use api::addon::v1alpha1::ClusterManagementAddOn;
use api::condition::find_condition;
use api::gitops::v1alpha1::{
    ConfigRepo, ConfigRepoInventory, ConfigRepoMode, ConfigRepoSpec, ConfigRepoStatus, HeldDeletions,
    Revision, RolloutPolicy,
};
use api::names::approval_reasons::{DELETIONS_HELD, PLAN_NOT_APPROVED, POLICY_HELD};
use api::names::gitops_conditions::{READY, STALLED};
use api::work::v1alpha1::ManifestWorkReplicaSet;
use controllers::hub::config_repo::is_same_source;
use controllers::policy_change::combined_for;
use engine::rollout::strategy::Strategy;
use engine::rollout::{ApplyWait, ApplyWindows};
use engine::sync::{self, Inventory, ObjectId};
use object::duration::{self, later};
use object::tree::Checkout;
use object::{Gvk, Key, KeyFiles, Metadata as _, Seed};
use serde_json::json;
use store::{Patch, ResourcePath, Store, WriteOptions};

/// The time that a preview plays: long enough for two weekend freeze windows.
const HORIZON: SignedDuration = SignedDuration::from_hours(14 * 24);
/// A deletion budget window that outlasts the horizon.
const LONG: &str = "1000h";
/// Number of wakes without a write after which a preview ends. Controllers check every minute for changes outside
/// the hub.
const QUIET: u32 = 100;
/// Replaces the approval token of deletions in a plan that does not know the uids of the objects.
const APPROVAL_OF_HUB: &str = "VALUE from status.heldDeletions.approval once the commit is applied";

/// A commit of a ConfigRepo.
#[derive(Clone, Debug)]
pub struct ProposedCommit {
    pub repo: Key,
    /// The commits to apply first, by ConfigRepo. A ConfigRepo without one keeps its current state.
    pub base: BTreeMap<Key, Arc<Checkout>>,
    /// The commit to preview.
    pub head: Arc<Checkout>,
    /// The ConfigRepos that reject the commit before rendering it, with the reason, such as its signature.
    pub refused: BTreeMap<Key, String>,
    /// The seeds of random values, by ConfigRepo. A placeholder replaces an unknown seed, so the commit's values
    /// equal those in `base` and differ from the hub's.
    pub seeds: BTreeMap<Key, Seed>,
    /// The keys that decrypt files, or the reason why they are unknown, by ConfigRepo.
    pub keys: BTreeMap<Key, Result<KeyFiles, String>>,
    /// The time that a cluster takes to apply a change and report success.
    pub succeeds_after: SignedDuration,
    /// True if a cluster succeeds before the shortest deadline of a rollout, if that is earlier.
    pub meets_deadlines: bool,
}

/// Predicts what a commit does to the hub in a snapshot.
///
/// # Errors
/// Fails if the ConfigRepo applies nothing, the snapshot lacks kinds or objects, or the controllers never come to
/// rest.
pub fn preview(
    snapshot: &HubSnapshot,
    commit: &ProposedCommit,
    now: Timestamp,
) -> Result<Preview, PreviewError> {
    let mut scope = snapshot.left_out.read_scope().clone();
    let mut commit = commit.clone();
    loop {
        let (preview, touched) = preview_of(&scope, snapshot, &commit, now)?;
        let again = refused_again(snapshot, &preview);
        let known = commit.refused.len();
        commit.refused.extend(again);
        match scope.grown(touched) {
            _ if commit.refused.len() > known => {}
            Some(grown) if snapshot.left_out.lacks(&grown) => return Err(PreviewError::LeftOut(grown)),
            Some(grown) => scope = grown,
            None => return Ok(preview),
        }
    }
}

/// Returns the ConfigRepos that accepted the commit in a preview although the hub currently rejects the same
/// objects for a reason that a preview cannot know, such as admission.
fn refused_again(snapshot: &HubSnapshot, preview: &Preview) -> BTreeMap<Key, String> {
    let mut refused = BTreeMap::new();
    let repos = snapshot.objects.iter().filter(|object| object.gvk() == Gvk::of::<ConfigRepo>());
    for repo in repos.filter_map(|object| object.to_typed::<ConfigRepo>().ok()) {
        let key = Key::of(&repo);
        let Some(digest) = preview.digests.get(&key) else { continue };
        let status = repo.status.unwrap_or_default();
        let waits = [PLAN_NOT_APPROVED, DELETIONS_HELD, POLICY_HELD];
        let stalled = find_condition(&status.conditions, STALLED).filter(|it| it.is_true());
        let Some(stalled) = stalled.filter(|it| !waits.contains(&it.reason.as_str())) else { continue };
        let digest_of = |revision: &Option<Revision>| {
            revision.as_ref().map(|revision| revision.digest.clone()).unwrap_or_default()
        };
        let [seen, applied] = [&status.seen, &status.applied].map(digest_of);
        if !seen.is_empty() && seen != applied && seen == *digest {
            let reason = format!("the hub currently rejects these objects: {}", stalled.message);
            refused.insert(key, reason);
        }
    }
    refused
}

/// Plays a commit on a scope's add-ons and sets; also returns those that the commit touches.
pub(super) fn preview_of(
    scope: &PreviewScope,
    snapshot: &HubSnapshot,
    commit: &ProposedCommit,
    now: Timestamp,
) -> Result<(Preview, PreviewScope), PreviewError> {
    let mut hub = snapshot.load(scope, now);
    let repo =
        get::<ConfigRepo>(&hub, &commit.repo).ok_or_else(|| PreviewError::NoRepo(commit.repo.clone()))?;
    let [frozen, opens] = windows(&repo.spec, now);
    let start = frozen.as_ref().or(opens.as_ref()).map_or(now, |window| window.until);
    let mut now = start;
    if repo.spec.suspend {
        return Err(PreviewError::Suspended(commit.repo.clone()));
    }
    if repo.spec.mode == ConfigRepoMode::Observe {
        return Err(PreviewError::Observes(commit.repo.clone()));
    }
    let old = repo.status.as_ref().map(applied).unwrap_or_default();
    if let Some(reason) = commit.refused.get(&commit.repo) {
        let refused = Preview::refused(&commit.repo, old, commit.head.revision.clone(), reason.clone());
        return Ok((refused, PreviewScope::default()));
    }
    let mut repos = of_same_source(all::<ConfigRepo>(&hub), &repo);
    let mut runner = Runner::new(scope, &hub);
    (runner.seeds, runner.keys) = (commit.seeds.clone(), commit.keys.clone());
    for repo in &mut repos {
        assume_health(&mut hub, repo, now);
        if let Some(base) = commit.base.get(&Key::of(repo)) {
            runner.fetch(repo, base, now);
        }
    }
    now = runner.settle(&mut hub, now)?;
    if !commit.base.is_empty() && !approve_plans(&mut hub, &repos, now).is_empty() {
        now = runner.settle(&mut hub, now)?;
    }
    runner.applied.clear();
    let (repos, refusing): (Vec<ConfigRepo>, Vec<ConfigRepo>) =
        repos.into_iter().partition(|repo| !commit.refused.contains_key(&Key::of(repo)));
    repos.iter().for_each(|repo| runner.fetch(repo, &commit.head, now));
    let spokes = Spokes::begin(&hub, commit.succeeds_after, now);
    let mut play = PreviewRun::begin(runner, hub, spokes, [start, now]);
    play.settle()?;
    let assumptions = play.meet_deadlines(commit).into_iter().collect();
    let plan_approvals = approve_plans(&mut play.hub, &repos, now);
    if !plan_approvals.is_empty() {
        play.settle()?;
    }
    repos.iter().for_each(|repo| play.keep_held(&Key::of(repo)));
    let inventories: Vec<_> = all::<ConfigRepoInventory>(&play.before).collect();
    for repo in repos.iter().chain(&refusing) {
        check_read(snapshot, &play.runner.kinds, repo, &sync::recorded(repo, &inventories))?;
    }
    let waits = repos.iter().any(|repo| !is_ready(&play.hub, &Key::of(repo)));
    if waits || !changes::objects(&play.runner.applied).is_empty() {
        play.let_time_pass()?;
    }
    let outcome = |repo: &Key| play.outcome(repo, commit, &plan_approvals);
    let own = outcome(&commit.repo);
    let others = repos.iter().skip(1).map(|repo| outcome(&Key::of(repo)));
    let others = others.chain(refusing.iter().map(|repo| refusal(repo, commit))).collect();
    let digests = repos.iter().map(|repo| (Key::of(repo), play.digest(&Key::of(repo)))).collect();
    let touched = play.touched(snapshot);
    let mut preview = Preview { digests, assumptions, ..play.results(commit, own, others) };
    for held in preview.held_mut().filter(|held| !held.approval.is_empty() && !snapshot.knows_uids(|_| true))
    {
        held.why = held.why.replace(&held.approval, APPROVAL_OF_HUB);
        held.approval.clear();
    }
    if !snapshot.knows_uids(|kind| ["ManagedClusterAddOn", "ManifestWork"].contains(&kind)) {
        preview.forget_removals();
    }
    if matches!(preview.verdict, Verdict::Change | Verdict::NeedsApproval) {
        (preview.frozen, preview.opens) = (frozen, opens);
    }
    Ok((preview, touched))
}

/// Returns the freeze window and the apply window that a commit waits for; at most one of them is set. The
/// operator rejects an unreadable window.
fn windows(spec: &ConfigRepoSpec, now: Timestamp) -> [Option<CommitWindow>; 2] {
    match ApplyWindows::read(spec).ok().and_then(|windows| windows.wait(now)) {
        Some(ApplyWait::Freeze { window, until }) => [Some(CommitWindow { window, until }), None],
        Some(ApplyWait::Window { window, until }) => [None, Some(CommitWindow { window, until })],
        // The operator's own condition reports this case, and the plan shows it.
        Some(ApplyWait::NoWindow { until: _ }) | None => [None, None],
    }
}

/// Returns a ConfigRepo followed by the others that apply commits from the same URL and reference. A commit may
/// move objects between them.
pub fn of_same_source(all: impl Iterator<Item = ConfigRepo>, repo: &ConfigRepo) -> Vec<ConfigRepo> {
    let applies = |other: &ConfigRepo| {
        let ConfigRepoSpec { suspend, mode, .. } = &other.spec;
        let is_same = is_same_source(other, repo) && Key::of(other) != Key::of(repo);
        is_same && !suspend && *mode != ConfigRepoMode::Observe && !other.is_terminating()
    };
    std::iter::once(repo.clone()).chain(all.filter(applies)).collect()
}

/// Makes stages not wait for health and commits not wait for other ConfigRepos, because a preview assumes that all
/// objects are healthy. Returns the ConfigRepo with defaults that its file may lack.
fn assume_health(hub: &mut Store, repo: &mut ConfigRepo, now: Timestamp) {
    let patch = Patch::Merge(json!({"spec": {"healthTimeout": "0s", "dependsOn": null}}));
    let target = ResourcePath::of::<ConfigRepo>(&Key::of(repo));
    // If the ConfigRepo does not exist, there is nothing to change.
    let _ = hub.patch(&target, &patch, &WriteOptions::manager("preview"), now);
    if let Some(written) = get(hub, &Key::of(repo)) {
        *repo = written;
    }
}

/// Returns the result for a ConfigRepo that rejects the commit before rendering it.
fn refusal(repo: &ConfigRepo, commit: &ProposedCommit) -> RepoPreview {
    let refused = commit.refused.get(&Key::of(repo)).cloned();
    RepoPreview { repo: Key::of(repo).to_string(), refused, plan_approval: String::new(), held: None }
}

/// The rollout with the shortest deadline.
struct ShortestDeadline {
    deadline: SignedDuration,
    workload: String,
}

impl ShortestDeadline {
    /// Finds the shortest deadline among a scope's rollouts of add-ons and sets.
    fn read(hub: &Store, scope: &PreviewScope) -> Option<Self> {
        let add_ons = all::<ClusterManagementAddOn>(hub).flat_map(|cma| {
            let name = cma.name().to_owned();
            let placements = cma.spec.install_strategy.placements.into_iter();
            placements
                .map(move |it| (PreviewWorkload::AddOn(name.clone()), name.clone(), it.rollout_strategy))
        });
        let sets = all::<ManifestWorkReplicaSet>(hub).flat_map(|set| {
            let name = Key::of(&set).to_string();
            let placements = set.spec.placement_refs.into_iter();
            placements
                .map(move |it| (PreviewWorkload::ReplicaSet(name.clone()), name.clone(), it.rollout_strategy))
        });
        let played = add_ons.chain(sets).filter(|(workload, ..)| scope.has(workload));
        let policies: Vec<RolloutPolicy> = all(hub).collect();
        let deadlines = played.filter_map(|(_, workload, strategy)| {
            let own = Strategy::read(&strategy, None).ok()?.limits().deadline;
            let of_policies = || combined_for(&policies, &workload).ok()?.policy.deadline;
            Some(Self { deadline: own.or_else(of_policies)?, workload })
        });
        deadlines.min_by_key(|shortest| shortest.deadline)
    }
}

struct PreviewRun {
    runner: Runner,
    /// The hub at the start.
    before: Store,
    hub: Store,
    spokes: Spokes,
    timeline: Timeline,
    approvals: Vec<ApprovalRequest>,
    /// Deletions held when the commit is applied.
    waiting: BTreeMap<Key, HeldObjects>,
    start: Timestamp,
    now: Timestamp,
}

impl PreviewRun {
    fn begin(runner: Runner, mut hub: Store, spokes: Spokes, [start, now]: [Timestamp; 2]) -> Self {
        let (before, timeline) = (hub.clone(), Timeline::begin(&hub, start));
        hub.keep_journal();
        let (approvals, waiting) = (Vec::new(), BTreeMap::new());
        Self { runner, before, hub, spokes, timeline, approvals, waiting, start, now }
    }

    /// Makes clusters succeed before the shortest deadline; returns the resulting assumption for the plan.
    fn meet_deadlines(&mut self, commit: &ProposedCommit) -> Option<String> {
        let shortest = ShortestDeadline::read(&self.hub, &self.runner.scope);
        let ShortestDeadline { deadline, workload } =
            shortest.filter(|shortest| shortest.deadline <= commit.succeeds_after)?;
        let [limit, usual] = [deadline, commit.succeeds_after].map(duration::format);
        if !commit.meets_deadlines {
            return Some(format!(
                "clusters take {usual}, but {workload} has a deadline of {limit}, so its clusters time out"
            ));
        }
        let soon = half(deadline);
        self.spokes.hurry(soon, self.now);
        let soon = duration::format(soon);
        Some(format!("clusters take {soon} instead of {usual}, because {workload} has a deadline of {limit}"))
    }

    /// Returns the digest of the objects that a ConfigRepo has applied.
    fn digest(&self, repo: &Key) -> String {
        let status = get::<ConfigRepo>(&self.hub, repo).and_then(|repo| repo.status);
        status.and_then(|status| status.applied).map(|applied| applied.digest).unwrap_or_default()
    }

    /// Advances time until nothing more happens.
    fn let_time_pass(&mut self) -> Result<(), PreviewError> {
        let (end, mut quiet) = (later(self.start, HORIZON), 0);
        let mut last = self.now;
        while quiet < QUIET {
            let granted = approve(&mut self.hub, &self.runner.scope, self.start, self.now);
            let is_granted = !granted.is_empty();
            self.approvals.extend(granted);
            if is_granted | self.spokes.report(&mut self.hub, self.now) {
                self.settle()?;
                (last, quiet) = (self.now, 0);
                continue;
            }
            let next = self.runner.next_at().into_iter().chain(self.spokes.next_at()).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = next.max(self.now);
            if self.settle()? {
                (last, quiet) = (self.now, 0);
            } else {
                quiet += 1;
            }
        }
        self.now = last;
        Ok(())
    }

    /// Runs the controllers until nothing is left to do; returns true if anything was written.
    fn settle(&mut self) -> Result<bool, PreviewError> {
        let mut has_written = false;
        loop {
            self.now = self.runner.settle(&mut self.hub, self.now)?;
            let entries = self.hub.take_journal();
            if entries.is_empty() {
                return Ok(has_written);
            }
            has_written = true;
            self.timeline.observe(&entries, &self.before, &self.hub, self.now);
            self.spokes.observe(&entries, self.now);
        }
    }

    /// Keeps held deletions on hold, because a plan shows what happens without an approval. It does not show what
    /// follows when a window has passed or fewer clusters would lose something.
    fn keep_held(&mut self, repo: &Key) {
        let status = get::<ConfigRepo>(&self.hub, repo).and_then(|repo| repo.status).unwrap_or_default();
        let Some(held) = held(&status).filter(|_| status.held_deletions.is_some()) else { return };
        self.waiting.insert(repo.clone(), held);
        let none = json!({"objects": 0, "percent": 0, "window": LONG});
        let patch = Patch::Merge(json!({"spec": {"deletionBudget": none}}));
        let target = ResourcePath::of::<ConfigRepo>(repo);
        let written = self.hub.patch(&target, &patch, &WriteOptions::manager("preview"), self.now);
        debug_assert!(written.is_ok(), "{repo}: {written:?}");
    }

    fn touched(&self, snapshot: &HubSnapshot) -> PreviewScope {
        let Self { before, hub, runner, .. } = self;
        Played { snapshot, before, after: hub, applied: &runner.applied }.touched()
    }

    /// Returns the result for one ConfigRepo.
    fn outcome(&self, repo: &Key, commit: &ProposedCommit, approvals: &BTreeMap<Key, String>) -> RepoPreview {
        let status = get::<ConfigRepo>(&self.hub, repo).and_then(|repo| repo.status).unwrap_or_default();
        let ready = find_condition(&status.conditions, READY);
        let message = ready.map(|ready| ready.message.clone()).unwrap_or_default();
        let is_applied = applied(&status) == commit.head.revision;
        let held = self.waiting.get(repo).cloned().or_else(|| held(&status)).filter(|_| is_applied);
        RepoPreview {
            repo: repo.to_string(),
            refused: (!is_applied).then_some(message),
            plan_approval: approvals.get(repo).cloned().unwrap_or_default(),
            held,
        }
    }

    fn results(self, commit: &ProposedCommit, own: RepoPreview, others: Vec<RepoPreview>) -> Preview {
        let before = &self.before;
        let old = get::<ConfigRepo>(before, &commit.repo).and_then(|repo| repo.status).unwrap_or_default();
        let mut objects = changes::objects(&self.runner.applied);
        objects.iter_mut().filter(|object| object.repo == own.repo).for_each(|object| object.repo.clear());
        let has_effect = !objects.is_empty();
        let removals = if has_effect { changes::removals(&self.hub, &self.runner.scope) } else { Vec::new() };
        let waits = |one: &RepoPreview| one.held.is_some() || !one.plan_approval.is_empty();
        let mut all = std::iter::once(&own).chain(&others);
        let needs_approval = all.clone().any(waits) || !removals.is_empty() || !self.approvals.is_empty();
        let verdict = if all.any(|one| one.refused.is_some()) {
            Verdict::Refused
        } else if needs_approval {
            Verdict::NeedsApproval
        } else if has_effect {
            Verdict::Change
        } else {
            Verdict::NoChange
        };
        let [add_ons, replica_sets] = changes::changed_workloads(before, &self.hub, self.timeline.batches());
        let RepoPreview { repo, refused, plan_approval, held } = own;
        let collisions = commit.head.tree.collisions().iter().map(ToString::to_string);
        Preview {
            repo,
            applied: applied(&old),
            commit: commit.head.revision.clone(),
            verdict,
            refused,
            plan_approval,
            frozen: None,
            opens: None,
            others,
            held,
            placements: changes::placements(before, &self.hub),
            add_ons,
            replica_sets,
            works: changes::works(before, &self.hub),
            approvals: self.approvals,
            waits: if has_effect { self.timeline.waits() } else { Vec::new() },
            removals,
            outcomes: if has_effect { changes::outcomes(&self.hub, &self.runner.scope) } else { Vec::new() },
            earlier: changes::earlier(before, &self.hub),
            assumed_kinds: self.spokes.assumed.iter().map(ToString::to_string).collect(),
            assumptions: Vec::new(),
            digests: BTreeMap::new(),
            warnings: collisions.chain(changes::plaintext(&self.runner.applied)).collect(),
            ends_after: self.now.duration_since(self.start).as_secs(),
            objects,
        }
    }
}

/// Returns the deletions that a ConfigRepo holds. If it holds back a RolloutPolicy because another ConfigRepo's
/// deletions are held, it has no approval token.
fn held(status: &ConfigRepoStatus) -> Option<HeldObjects> {
    let ready = find_condition(&status.conditions, READY)?;
    let why = ready.message.clone();
    let Some(HeldDeletions { approval, total, objects, until: _, unknown: _ }) = &status.held_deletions
    else {
        let nothing = HeldObjects { why, approval: String::new(), total: 0, objects: Vec::new() };
        return (ready.reason == POLICY_HELD).then_some(nothing);
    };
    Some(HeldObjects {
        why,
        approval: approval.clone(),
        total: usize::try_from(*total).unwrap_or_default(),
        objects: objects.iter().map(|entry| ObjectId::from_entry(entry).0.to_string()).collect(),
    })
}

fn is_ready(hub: &Store, repo: &Key) -> bool {
    let status = get::<ConfigRepo>(hub, repo).and_then(|repo| repo.status).unwrap_or_default();
    find_condition(&status.conditions, READY).is_some_and(|ready| ready.is_true())
}

/// Returns the commit that is currently applied.
fn applied(status: &ConfigRepoStatus) -> String {
    status.applied.as_ref().map(|applied| applied.commit.clone()).unwrap_or_default()
}

/// Rejects a snapshot that lacks kinds. If the snapshot does not list its kinds, it must contain the kinds of the
/// inventory.
fn check_read(
    snapshot: &HubSnapshot,
    asked: &BTreeSet<Gvk>,
    repo: &ConfigRepo,
    owned: &Inventory,
) -> Result<(), PreviewError> {
    let is_counted = repo.status.as_ref().is_some_and(|status| status.objects.unwrap_or_default() > 0);
    let inventories = is_counted.then(Gvk::of::<ConfigRepoInventory>);
    let owned = owned.iter().map(|(id, version)| id.at(version).gvk).chain(inventories);
    let wanted: BTreeSet<Gvk> = if snapshot.kinds.is_some() { asked.clone() } else { owned.collect() };
    let unread: Vec<Gvk> = wanted.into_iter().filter(|kind| !snapshot.has_read(kind)).collect();
    if unread.is_empty() { Ok(()) } else { Err(PreviewError::Unread(unread)) }
}

/// Returns half of a duration, in whole seconds unless it is less than one second.
fn half(time: SignedDuration) -> SignedDuration {
    match (time / 2).as_secs() {
        0 => time / 2,
        seconds => SignedDuration::from_secs(seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_a_deadline_has_whole_seconds() {
        for (whole, part) in [("20s", "10s"), ("25s", "12s"), ("1m1s", "30s"), ("1s", "500ms")] {
            let half = half(duration::parse(whole).unwrap());
            assert_eq!(duration::format(half), part, "{whole}");
        }
    }
}
