//! Writes the status of a ConfigRepo.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use api::condition::Conditions as _;
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoStatus, RecentResult, Revision};
use api::names::approval_reasons::DELETIONS_HELD;
use api::names::gitops_conditions::{READY, RECONCILING, STALLED};
use engine::sync::{ObjectId, Recent};
use object::Object;
use object::duration::whole_second;
use object::text::short_commit;
use object::tree::Checkout;
use reconcile::StatusWrite;

/// Number of results in the history, as in Flux's Kustomization.
const HISTORY: usize = 5;

/// Maximum number of objects per list in the status, such as held deletions.
pub(super) const MAX_LISTED: usize = 10;

/// The reason while the hub forbids writes under the identity of the ConfigRepo.
pub(super) const FORBIDDEN: &str = "Forbidden";

/// The condition that is true, in terms of kstatus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The hub matches the repository.
    Ready,
    /// The hub will match the repository without a change.
    Reconciling,
    /// The hub will only match the repository after a person acts.
    Stalled,
}

/// A phase with its reason and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Readiness {
    pub(super) phase: Phase,
    pub(super) reason: String,
    pub(super) message: String,
    /// The time at which it may change without an event.
    pub(super) until: Option<Timestamp>,
}

impl Readiness {
    pub(super) fn new(phase: Phase, reason: &str, message: impl AsRef<str>) -> Self {
        Self { phase, reason: reason.into(), message: message.as_ref().into(), until: None }
    }

    pub(super) fn until(self, end: Timestamp) -> Self {
        Self { until: Some(end), ..self }
    }

    /// Returns true if people should know about it: a commit is applied, or a commit or its deletions wait for a
    /// person.
    pub(super) fn is_result(&self) -> bool {
        self.phase != Phase::Reconciling || self.reason == DELETIONS_HELD
    }
}

/// Describes the commit that stays applied, and a later one that is partly applied.
pub(super) fn still_applied(status: &ConfigRepoStatus) -> String {
    match (&status.partial, &status.applied) {
        (Some(Revision { commit, .. }), _) => {
            format!("{} stays applied in part{}", short_commit(commit), applied_before(status, commit))
        }
        (None, Some(applied)) => format!("{} stays applied", short_commit(&applied.commit)),
        (None, None) => "nothing has been applied yet".into(),
    }
}

/// Describes the commit that was applied before a partly applied one.
pub(super) fn applied_before(status: &ConfigRepoStatus, commit: &str) -> String {
    let before = status.applied.as_ref().filter(|applied| applied.commit != commit);
    let named = before.map(|applied| format!(", and {} was applied before", short_commit(&applied.commit)));
    named.unwrap_or_default()
}

/// Returns true if the status is about a commit (any if empty) and about the current spec.
pub(super) fn is_about(repo: &ConfigRepo, commit: &str) -> bool {
    repo.status.as_ref().is_some_and(|status| {
        status.observed_generation == repo.metadata.generation
            && status.seen.as_ref().is_some_and(|seen| commit.is_empty() || seen.commit == commit)
    })
}

/// Returns a number of objects for the status.
pub(super) fn count(objects: usize) -> i32 {
    i32::try_from(objects).unwrap_or(i32::MAX)
}

/// Returns true if the status reports that the operator waits for its own reads.
pub(super) fn is_waiting(repo: &ConfigRepo) -> bool {
    repo.condition(RECONCILING).is_some_and(|condition| {
        condition.is_true() && matches!(condition.reason.as_str(), "Fetching" | "Rendering" | "Waiting")
    })
}

/// Adds the result of the last fetched commit to the history. A commit in progress has no result yet.
pub(super) fn record(status: &mut ConfigRepoStatus, readiness: &Readiness, now: Timestamp) {
    let reason = &readiness.reason;
    let Some(Revision { commit, digest, .. }) = status.seen.as_ref().filter(|_| readiness.is_result()) else {
        return;
    };
    let is_it = |one: &RecentResult| (&one.commit, &one.digest, &one.reason) == (commit, digest, reason);
    if status.history.first().is_some_and(is_it) {
        return;
    }
    let others = status.history.iter().filter(|one| !is_it(one)).cloned();
    let newest = RecentResult {
        commit: commit.clone(),
        digest: digest.clone(),
        reason: reason.clone(),
        since: Some(Time(whole_second(now))),
        ..RecentResult::default()
    };
    status.history = std::iter::once(newest).chain(others).take(HISTORY).collect();
}

/// Returns the revision of a fetched commit. If the spec has changed, the commit is judged again.
pub(super) fn seen(repo: &ConfigRepo, checkout: &Checkout, now: Timestamp) -> Revision {
    let before = repo.status.as_ref().and_then(|status| status.seen.as_ref());
    let judged = before.filter(|_| is_about(repo, &checkout.revision));
    let digest = judged.map_or("", |seen| seen.digest.as_str());
    revision(before, checkout, repo, digest, now)
}

/// Returns a revision. Its time stays as long as the revision does not change.
pub(super) fn revision(
    before: Option<&Revision>,
    checkout: &Checkout,
    repo: &ConfigRepo,
    digest: &str,
    now: Timestamp,
) -> Revision {
    let (commit, url, reference) = (&checkout.revision, &repo.spec.url, repo.spec.r#ref.name());
    let same = before.filter(|before| {
        let same_source = before.url == *url && before.reference == reference;
        same_source && before.commit == *commit && before.digest == digest
    });
    same.cloned().unwrap_or_else(|| Revision {
        commit: commit.clone(),
        url: url.clone(),
        reference: reference.into(),
        digest: digest.into(),
        since: Some(Time(whole_second(now))),
        ..Revision::default()
    })
}

/// Returns the record of deletions.
pub(super) fn recent_deletions(status: Option<&ConfigRepoStatus>) -> Recent {
    let deletions = status.into_iter().flat_map(|status| &status.recent_deletions);
    deletions.filter_map(|it| Some((ObjectId::from_path(&it.object)?, it.time.0))).collect()
}

/// Rebases a drafted status onto the current object, which the inventory step or another controller may have
/// changed.
pub(super) fn rebase(now: &ConfigRepo, draft: &StatusWrite) -> Option<StatusWrite> {
    let mut new = drafted(now, draft)?;
    let (status, before) = (new.status.as_mut()?, now.status.as_ref());
    let drafted = std::mem::take(&mut status.conditions);
    status.conditions = before.map(|status| status.conditions.clone()).unwrap_or_default();
    for condition in drafted.into_iter().filter(|c| [READY, RECONCILING, STALLED].contains(&c.type_.as_str()))
    {
        match status.conditions.iter_mut().find(|held| held.type_ == condition.type_) {
            Some(held) => *held = condition,
            None => status.conditions.push(condition),
        }
    }
    StatusWrite::between(now, &new)
}

/// Returns the current object with a drafted status.
pub(super) fn drafted(now: &ConfigRepo, draft: &StatusWrite) -> Option<ConfigRepo> {
    let mut value = Object::from_typed(now).into_value();
    json_patch::merge(&mut value, &Value::Object(draft.patch.clone()));
    serde_json::from_value(value).ok()
}

/// Returns true if the hub forbids writes under the identity of a ConfigRepo.
pub(super) fn is_forbidden(repo: &ConfigRepo) -> bool {
    repo.condition(READY).is_some_and(|ready| ready.reason == FORBIDDEN)
}
