//! Objects that move from one ConfigRepo to another without being deleted.
//!
//! A ConfigRepo that wants an object of another one records a request in its inventory. When the object
//! leaves the repository of its owner, the owner writes the new owner into the annotation of the object. Only
//! then it removes the object from its inventory. So at every moment the inventory of the owner that the
//! annotation names lists the object.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::depends::is_same_source;
use super::identity::RepoIdentity;
use api::condition::find_condition;
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoInventory, ConfigRepoMode, ConfigRepoStatus};
use api::names::gitops_conditions::{READY, RECONCILING, STALLED};
use engine::sync::{self, ObjectId};
use object::duration::later;
use object::{Key, Metadata as _};
use reconcile::{Query, Read, View};

/// How long deletions wait for the other ConfigRepos of the same repository after a commit is first seen.
/// These fetch and render the same commit in seconds.
const GRACE: SignedDuration = SignedDuration::from_mins(1);

/// The reason of the condition Reconciling while deletions wait.
pub(super) const REASON: &str = "WaitingForMoves";

/// The moves that a plan takes part in.
pub(super) struct Moves {
    /// The objects that other ConfigRepos of the same identity request, and these ConfigRepos. With another
    /// identity, a ConfigRepo could get an object that it may not create.
    pub(super) requested: BTreeMap<ObjectId, Key>,
    /// A ConfigRepo that may still request an object of the commit, and the end of the wait for it.
    pub(super) awaited: Option<(Key, Timestamp)>,
}

impl Moves {
    /// Reads the requests of others.
    ///
    /// # Errors
    /// The ConfigRepos or their inventories have not been read.
    pub(super) fn of(
        repo: &ConfigRepo,
        status: &ConfigRepoStatus,
        view: &impl View,
        now: Timestamp,
    ) -> Read<Self> {
        let key = Key::of(repo);
        let identity = RepoIdentity::of(repo, view)?;
        let parts = view.list::<ConfigRepoInventory>(Query::ALL)?;
        let requesting: Vec<_> = parts.iter().filter(|part| !part.spec.requested.is_empty()).collect();
        let mut moves = Self { requested: BTreeMap::new(), awaited: None };
        let seen = status.seen.as_ref();
        let end = seen.and_then(|seen| Some(later(seen.since.as_ref()?.0, GRACE)));
        let end = end.filter(|end| *end > now && *end <= later(now, GRACE));
        let commit = seen.map(|seen| seen.commit.as_str()).unwrap_or_default();
        for other in view.list::<ConfigRepo>(Query::ALL)? {
            let is_awaited = end.is_some()
                && is_same_source(&other, repo)
                && !other.spec.suspend
                && !has_judged(&other, commit);
            if !is_awaited && requesting.is_empty() || Key::of(&*other) == key {
                continue;
            }
            let may_own = other.spec.mode != ConfigRepoMode::Observe && !other.is_terminating();
            if !may_own || RepoIdentity::of(&other, view)? != identity {
                continue;
            }
            let requests = sync::requested(&other, requesting.iter().map(|part| &***part));
            moves.requested.extend(requests.into_keys().map(|id| (id, Key::of(&*other))));
            if is_awaited && moves.awaited.is_none() {
                moves.awaited = end.map(|end| (Key::of(&*other), end));
            }
        }
        Ok(moves)
    }
}

/// Returns whether a ConfigRepo has decided about a commit, so that its requests are recorded.
fn has_judged(repo: &ConfigRepo, commit: &str) -> bool {
    let Some(status) = &repo.status else { return false };
    let holds = |type_: &str| find_condition(&status.conditions, type_).filter(|it| it.is_true());
    let is_undecided = |reason: &str| {
        matches!(reason, "Fetching" | "Rendering" | "Waiting" | "DependencyNotReady")
            || reason.starts_with("Source")
    };
    let is_decided = match holds(RECONCILING) {
        Some(reconciling) => !is_undecided(&reconciling.reason),
        None => holds(READY).or(holds(STALLED)).is_some(),
    };
    is_decided && status.seen.as_ref().is_some_and(|seen| seen.commit == commit)
}

/// Returns whether a ConfigRepo waits for others to judge a commit.
pub(super) fn waits(repo: &ConfigRepo) -> bool {
    let conditions = repo.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|condition| condition.type_ == RECONCILING && condition.reason == REASON)
}
