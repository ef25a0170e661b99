//! What to do about a repository.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, json};

use super::commit;
use super::status::{Phase, Verdict, conclude, revision, short, stays};
use api::gitops::v1alpha1::{
    self as gitops, ConfigRepo, ConfigRepoMode, ConfigRepoStatus, DeletionPolicy, DriftStatus, HeldDeletions,
};
use api::names;
use engine::sync::{self, Budget, Desired, Id, Input, Inventory, Policy, Sync, Takeover};
use object::tree::Checkout;
use object::{Key, Object, ObjectRef};
use reconcile::{Action, Plan, Query, Read, Source, StatusWrite, View};

/// How many objects a status names of those that are held or drifted.
const NAMED: usize = 10;
/// Longest wait between two corrections of the same drift.
const LONGEST_DRIFT_WAIT: SignedDuration = SignedDuration::from_mins(10);
/// How soon a refusal that depends on objects of others is looked at again.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_mins(1);

/// Failures of the git station that go away by themselves; the others wait for a person.
const TRANSIENT: &[&str] = &["SourceUnreachable", "SourceTimeout", "GitCacheFailed"];

pub(super) fn plan(repo: &ConfigRepo, view: &impl View, now: Timestamp) -> Plan {
    if repo.metadata.deletion_timestamp.is_some() {
        return tear_down(repo, view);
    }
    if let Some(finalizer) = missing_finalizer(repo) {
        return Plan { steps: vec![vec![finalizer]], ..Plan::default() };
    }
    let mut draft = Draft::of(repo, now);
    if repo.spec.suspend {
        return draft.finish();
    }
    match view.source(&Key::of(repo)) {
        None => draft.wait("", "Fetching", "the repository has not been fetched yet"),
        Some(source) => follow(&mut draft, &source, view),
    }
    draft.finish()
}

/// A plan and the status that will be true when it has been executed.
struct Draft<'a> {
    repo: &'a ConfigRepo,
    key: Key,
    now: Timestamp,
    status: ConfigRepoStatus,
    verdict: Option<Verdict>,
    plan: Plan,
}

impl<'a> Draft<'a> {
    fn of(repo: &'a ConfigRepo, now: Timestamp) -> Self {
        let mut status = repo.status.clone().unwrap_or_default();
        status.last_handled_reconcile_at = annotation(repo, names::RECONCILE_AT_ANNOTATION);
        Self { repo, key: Key::of(repo), now, status, verdict: None, plan: Plan::default() }
    }

    fn inventory(&self) -> Inventory {
        self.repo.status.iter().flat_map(|status| &status.inventory).map(Id::from_entry).collect()
    }

    /// Records what is owned before anything is written.
    fn own(&mut self, inventory: &Inventory) {
        self.status.inventory = inventory.iter().map(|(id, version)| id.entry(version)).collect();
        let known = self.inventory();
        if inventory.keys().all(|id| known.contains_key(id)) {
            return;
        }
        let mut ahead = self.repo.clone();
        ahead.status.get_or_insert_default().inventory = self.status.inventory.clone();
        self.plan.step(StatusWrite::between(self.repo, &ahead).map(|write| write.action()));
    }

    /// Says that a read is awaited, unless a commit was found applied before: a restart is no news about it.
    fn wait(&mut self, commit: &str, reason: &str, message: &str) {
        let known = self.repo.status.iter().any(|status| match &status.applied {
            Some(applied) => commit.is_empty() || applied.commit == commit,
            None => false,
        });
        if !known {
            self.verdict = Some(Verdict::new(Phase::Progressing, reason, message));
        }
    }

    fn finish(mut self) -> Plan {
        if let Some(verdict) = &self.verdict {
            conclude(&mut self.status, self.repo.metadata.generation.unwrap_or_default(), verdict, self.now);
        }
        let mut new = self.repo.clone();
        new.status = Some(self.status);
        self.plan.status = StatusWrite::between(self.repo, &new);
        self.plan
    }
}

/// Goes where the git station points.
fn follow(draft: &mut Draft<'_>, source: &Source, view: &impl View) {
    if let Some(checkout) = &source.checkout {
        apply(draft, checkout, view);
    }
    let Some(failure) = &source.failure else { return };
    // A commit that cannot be applied is worse news than a remote that is away.
    if draft.verdict.as_ref().is_some_and(|verdict| verdict.phase == Phase::Stalled) {
        return;
    }
    let phase = if TRANSIENT.contains(&failure.reason) { Phase::Progressing } else { Phase::Stalled };
    let message = format!("{}; {}", failure.message, stays(draft.status.applied.as_ref()));
    draft.verdict = Some(Verdict::new(phase, failure.reason, message));
}

fn apply(draft: &mut Draft<'_>, checkout: &Checkout, view: &impl View) {
    let repo = draft.repo;
    let (commit, reference) = (checkout.revision.as_str(), commit::reference(repo));
    draft.status.seen = Some(revision(draft.status.seen.as_ref(), commit, &reference, "", draft.now));
    let inventory = draft.inventory();
    let desired = match commit::desired(repo, checkout, view) {
        Ok(desired) => desired,
        Err(problems) => {
            draft.plan.observe = kinds(draft, &[], &inventory);
            draft.verdict = Some(Verdict::stopped(&problems, draft.status.applied.as_ref()));
            return;
        }
    };
    draft.plan.observe = kinds(draft, &desired, &inventory);
    let live = |what: &ObjectRef| view.observed(what);
    if repo.spec.mode == ConfigRepoMode::Observe {
        return observe(draft, commit, &desired, live);
    }
    let claimed = match claimed(&draft.key, view) {
        Ok(claimed) => claimed,
        Err(unread) => {
            draft.wait(commit, "Waiting", &unread.to_string());
            return;
        }
    };
    let missing: BTreeSet<String> = match missing(&desired, view) {
        Ok(missing) => missing,
        Err(unread) => {
            draft.wait(commit, "Waiting", &unread.to_string());
            return;
        }
    };
    let policy = policy(repo);
    let input = Input {
        repo: &draft.key,
        desired: &desired,
        inventory: &inventory,
        claimed: &claimed,
        missing: &missing,
        policy: &policy,
    };
    let sync = sync::plan(&input, live);
    write(draft, commit, &desired, sync);
}

fn kinds(draft: &Draft<'_>, desired: &[Desired], inventory: &Inventory) -> Vec<object::Gvk> {
    let (claimed, missing, policy) = (BTreeMap::new(), BTreeSet::new(), Policy::default());
    Input { repo: &draft.key, desired, inventory, claimed: &claimed, missing: &missing, policy: &policy }
        .kinds()
}

/// Turns the engine's answer into steps and a verdict.
fn write(draft: &mut Draft<'_>, commit: &str, desired: &[Desired], sync: Sync) {
    let applied = draft.status.applied.clone();
    if !sync.problems.is_empty() {
        draft.plan.wake(later(draft.now, LOOK_AGAIN));
        draft.verdict = Some(Verdict::stopped(&sync.problems, applied.as_ref()));
        return;
    }
    if let Some(first) = sync.waiting.first() {
        draft.wait(commit, "Waiting", first);
        return;
    }
    draft.own(&sync.inventory);
    for stage in sync.apply {
        draft.plan.step(stage);
    }
    let correct = correct(draft, sync.correct);
    for stage in sync.delete {
        draft.plan.step(stage);
    }
    draft.status.applied = Some(revision(
        applied.as_ref(),
        commit,
        &commit::reference(draft.repo),
        &sync::digest(desired),
        draft.now,
    ));
    draft.status.held_deletions = sync.held.as_ref().map(|held| HeldDeletions {
        approval: held.approval.clone(),
        total: i32::try_from(held.objects.len()).unwrap_or(i32::MAX),
        objects: held.objects.iter().take(NAMED).map(|id| id.entry("")).collect(),
        ..HeldDeletions::default()
    });
    draft.verdict = Some(if let Some(held) = &sync.held {
        let names: Vec<_> = held.objects.iter().take(3).map(ToString::to_string).collect();
        let more = if held.objects.len() > names.len() { ", …" } else { "" };
        let message = format!(
            "{} is applied, but deletions wait: {} ({}{more}). To approve, annotate the ConfigRepo: {}={}",
            short(commit),
            held.why,
            names.join(", "),
            names::APPROVE_DELETION_ANNOTATION,
            held.approval
        );
        Verdict::new(Phase::Stalled, "DeletionsHeld", message)
    } else if let Some(drifting) = correct {
        drifting
    } else if let Some(first) = sync.homeless.first() {
        let more = sync.homeless.len().saturating_sub(1);
        let others = if more > 0 { format!(" and {more} more") } else { String::new() };
        let message = format!(
            "{} is applied but for {first}{others}: namespace {} does not exist. It is applied when the namespace is there; \
             a cluster's comes with the cluster, others belong into the repository",
            short(commit),
            first.key.namespace
        );
        Verdict::new(Phase::Progressing, "NamespaceNotFound", message)
    } else if sync.leaving > 0 {
        Verdict::new(
            Phase::Progressing,
            "Deleting",
            format!("{} is applied; {} objects are being deleted", short(commit), sync.leaving),
        )
    } else {
        let objects = if desired.len() == 1 { "object" } else { "objects" };
        Verdict::new(
            Phase::Ready,
            "Applied",
            format!("applied {} ({} {objects})", short(commit), desired.len()),
        )
    });
}

/// Puts right what somebody changed on the hub, the less often the more often it is changed back.
fn correct(draft: &mut Draft<'_>, actions: Vec<Action>) -> Option<Verdict> {
    let before = draft.status.drift.clone().unwrap_or_default();
    let last = before.last_time.as_ref().map(|time| time.0);
    let idle = |since: Timestamp| draft.now.duration_since(since);
    if actions.is_empty() {
        // A fight that ended long ago is forgotten, so that the next change is put right at once.
        if last.is_some_and(|last| idle(last) > LONGEST_DRIFT_WAIT * 3) {
            draft.status.drift = None;
        }
        return None;
    }
    let targets: Vec<_> = actions
        .iter()
        .filter_map(
            |action| if let Action::Apply { object, .. } = action { Some(object.reference()) } else { None },
        )
        .collect();
    let wait = SignedDuration::from_secs(1 << before.corrections.clamp(0, 10)).min(LONGEST_DRIFT_WAIT);
    if let Some(due) =
        last.map(|last| later(last, wait)).filter(|due| before.corrections > 0 && *due > draft.now)
    {
        draft.plan.wake(due);
        let first = targets.first().map(ToString::to_string).unwrap_or_default();
        let message = format!(
            "{first} was changed on the hub {} times and put right each time; next at {due}. Stop whoever changes it, or remove the field from the repository",
            before.corrections
        );
        return Some(Verdict::new(Phase::Progressing, "Drifted", message));
    }
    draft.plan.step(actions);
    let seconds = Timestamp::from_second(draft.now.as_second()).unwrap_or(draft.now);
    draft.status.drift = Some(DriftStatus {
        corrections: before.corrections.saturating_add(1),
        last_time: Some(Time(seconds)),
        objects: targets.iter().take(NAMED).map(|what| Id::of(what).entry(&what.gvk.version)).collect(),
        ..before
    });
    None
}

/// Another tool applies; only what it has done is said.
fn observe(
    draft: &mut Draft<'_>,
    commit: &str,
    desired: &[Desired],
    live: impl Fn(&ObjectRef) -> Read<Option<std::sync::Arc<Object>>>,
) {
    draft.status.inventory.clear();
    draft.status.held_deletions = None;
    let mut differing = Vec::new();
    for wanted in desired {
        match live(&wanted.reference) {
            Ok(Some(live)) if sync::is_covered(&live, &sync::unmarked(&wanted.object)) => {}
            Ok(_) => differing.push(wanted.reference.to_string()),
            Err(unread) => {
                draft.wait(commit, "Waiting", &unread.to_string());
                return;
            }
        }
    }
    draft.verdict = Some(match differing.first() {
        None => {
            let applied = draft.status.applied.take();
            draft.status.applied = Some(revision(
                applied.as_ref(),
                commit,
                &commit::reference(draft.repo),
                &sync::digest(desired),
                draft.now,
            ));
            Verdict::new(
                Phase::Ready,
                "Observed",
                format!("the hub is as {} says ({} objects)", short(commit), desired.len()),
            )
        }
        Some(first) => {
            let message = format!(
                "{} of {} objects are not as {} says, {first} for one; mode Observe leaves them to the tool that applies them",
                differing.len(),
                desired.len(),
                short(commit)
            );
            Verdict::new(Phase::Progressing, "NotApplied", message)
        }
    });
}

/// What the inventories of other repositories hold.
fn claimed(key: &Key, view: &impl View) -> Read<BTreeMap<Id, Key>> {
    let mut claimed = BTreeMap::new();
    for other in view.list::<ConfigRepo>(Query::ALL)?.iter().filter(|other| Key::of(&***other) != *key) {
        for entry in other.status.iter().flat_map(|status| &status.inventory) {
            claimed.insert(Id::from_entry(entry).0, Key::of(&**other));
        }
    }
    Ok(claimed)
}

/// The namespaces that objects wait for.
fn missing(desired: &[Desired], view: &impl View) -> Read<BTreeSet<String>> {
    let mut missing = sync::homes(desired);
    for name in missing.clone() {
        if view.get::<Namespace>(&Key::cluster(name.as_str()))?.is_some() {
            missing.remove(&name);
        }
    }
    Ok(missing)
}

fn policy(repo: &ConfigRepo) -> Policy {
    let budget = &repo.spec.deletion_budget;
    let count = |n: i32| usize::try_from(n).unwrap_or_default();
    Policy {
        takeover: match repo.spec.takeover {
            gitops::Takeover::IfNoDiff => Takeover::IfNoDiff,
            gitops::Takeover::Always => Takeover::Always,
            // Of a word we do not know, the safest meaning.
            gitops::Takeover::Never | gitops::Takeover::Other(_) => Takeover::Never,
        },
        prune: repo.spec.prune,
        budget: Some(Budget { objects: count(budget.objects), percent: count(budget.percent) }),
        approved: annotation(repo, names::APPROVE_DELETION_ANNOTATION),
    }
}

/// Lets go of what a repository that is being deleted owns.
fn tear_down(repo: &ConfigRepo, view: &impl View) -> Plan {
    let finalizers = repo.metadata.finalizers.clone().unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == names::CONFIG_REPO_FINALIZER) {
        return Plan::nothing();
    }
    let draft = Draft::of(repo, Timestamp::UNIX_EPOCH);
    let mut plan = Plan::default();
    if repo.spec.deletion_policy == DeletionPolicy::Delete {
        let (inventory, claimed, missing) = (draft.inventory(), BTreeMap::new(), BTreeSet::new());
        let policy = Policy { prune: true, ..Policy::default() };
        let input = Input {
            repo: &draft.key,
            desired: &[],
            inventory: &inventory,
            claimed: &claimed,
            missing: &missing,
            policy: &policy,
        };
        let sync = sync::plan(&input, |what| view.observed(what));
        if !sync.inventory.is_empty() {
            plan.observe = input.kinds();
            for stage in sync.delete {
                plan.step(stage);
            }
            return plan;
        }
    }
    let rest: Vec<_> =
        finalizers.into_iter().filter(|finalizer| finalizer != names::CONFIG_REPO_FINALIZER).collect();
    plan.step([finalizers_patch(repo, &rest)]);
    plan
}

/// Asks to be there when the repository is deleted, if that matters.
fn missing_finalizer(repo: &ConfigRepo) -> Option<Action> {
    let mut finalizers = repo.metadata.finalizers.clone().unwrap_or_default();
    let wanted = repo.spec.deletion_policy == DeletionPolicy::Delete;
    if !wanted || finalizers.iter().any(|finalizer| finalizer == names::CONFIG_REPO_FINALIZER) {
        return None;
    }
    finalizers.push(names::CONFIG_REPO_FINALIZER.into());
    Some(finalizers_patch(repo, &finalizers))
}

fn finalizers_patch(repo: &ConfigRepo, finalizers: &[String]) -> Action {
    Action::patch(repo, Map::from_iter([("metadata".to_owned(), json!({ "finalizers": finalizers }))]))
}

fn annotation(repo: &ConfigRepo, name: &str) -> String {
    repo.metadata
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(name))
        .cloned()
        .unwrap_or_default()
}

fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.saturating_add(by).unwrap_or(Timestamp::MAX)
}
