//! Moves objects from one ConfigRepo to another without deleting them.
//!
//! A ConfigRepo that wants an object of another one records a request in its inventory. When the object is removed
//! from the owner's repository, the owner writes the new owner into the object's annotation, and only then removes
//! the object from its inventory. The inventory of the owner in the annotation therefore lists the object at every
//! moment.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::depends::is_same_source;
use super::identity::RepoIdentity;
use super::status::is_about;
use api::condition::find_condition;
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoInventory, ConfigRepoMode, Revision};
use api::names::approval_reasons::{DELETIONS_HELD, POLICY_HELD};
use api::names::gitops_conditions::READY;
use engine::sync::{self, ObjectId};
use object::duration::{self, later};
use object::{Key, Metadata as _};
use reconcile::{Query, Read, View};

/// Time that deletions wait for another ConfigRepo of the same repository after its next fetch. It renders the
/// same commit in seconds.
const GRACE: SignedDuration = SignedDuration::from_mins(1);
/// The default of `spec.interval`, also used if the value is not a duration.
const DEFAULT_INTERVAL: SignedDuration = SignedDuration::from_mins(1);

/// The reason of the condition Reconciling while deletions wait.
pub(super) const REASON: &str = "WaitingForMoves";

/// The moves of objects in which a plan takes part.
pub(super) struct Moves {
    /// The objects that other ConfigRepos with the same identity request, and these ConfigRepos. With another
    /// identity, a ConfigRepo could receive an object that it may not create.
    pub(super) requested: BTreeMap<ObjectId, Key>,
    /// A ConfigRepo that will soon request the objects that it wants, and the time when the wait for it ends.
    pub(super) awaited: Option<(Key, Timestamp)>,
    /// The reason that another ConfigRepo cannot request objects that it may want.
    pub(super) unjudged: Option<String>,
}

impl Moves {
    /// Reads the requests of others. `seen` is the newest commit of the ConfigRepo.
    ///
    /// # Errors
    /// Fails if the ConfigRepos or their inventories have not been read.
    pub(super) fn of(
        repo: &ConfigRepo,
        seen: Option<&Revision>,
        view: &impl View,
        now: Timestamp,
    ) -> Read<Self> {
        let key = Key::of(repo);
        let identity = RepoIdentity::of(repo, view)?;
        let parts = view.list::<ConfigRepoInventory>(Query::ALL)?;
        let requesting: Vec<_> = parts.iter().filter(|part| !part.spec.requested.is_empty()).collect();
        let mut moves = Self { requested: BTreeMap::new(), awaited: None, unjudged: None };
        let commit = seen.map(|seen| seen.commit.as_str()).unwrap_or_default();
        for other in view.list::<ConfigRepo>(Query::ALL)? {
            let is_awaited = is_same_source(&other, repo) && !has_judged(&other, commit);
            if !is_awaited && requesting.is_empty() || Key::of(&*other) == key {
                continue;
            }
            let may_own = other.spec.mode != ConfigRepoMode::Observe && !other.is_terminating();
            if !may_own || RepoIdentity::of(&other, view)? != identity {
                continue;
            }
            let requests = sync::requested(&other, requesting.iter().map(|part| &***part));
            moves.requested.extend(requests.into_keys().map(|id| (id, Key::of(&*other))));
            if !is_awaited {
                continue;
            }
            if let Some(end) = seen.and_then(|seen| end_of_wait(seen, &other, now)) {
                moves.awaited.get_or_insert_with(|| (Key::of(&*other), end));
            } else if let Some(why) = obstacle(&other) {
                let message = format!(
                    "the ConfigRepo {} follows the same repository and may want the objects, but has not processed the commit: {why}",
                    Key::of(&*other)
                );
                moves.unjudged.get_or_insert(message);
            }
        }
        Ok(moves)
    }
}

/// Returns until when the deletions of a commit wait for another ConfigRepo, which may be newer than the commit,
/// to fetch and judge it. A time too far ahead comes from a wrong clock and is ignored.
fn end_of_wait(seen: &Revision, other: &ConfigRepo, now: Timestamp) -> Option<Timestamp> {
    let interval = duration::parse(&other.spec.interval).unwrap_or(DEFAULT_INTERVAL);
    let wait = interval.saturating_add(GRACE);
    let created = other.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let end = later(created.into_iter().chain([seen.since.as_ref()?.0]).max()?, wait);
    (end > now && end <= later(now, wait)).then_some(end)
}

/// Returns the reason that a ConfigRepo cannot judge a commit; `None` if it may not have seen the commit yet.
fn obstacle(repo: &ConfigRepo) -> Option<String> {
    if repo.spec.suspend {
        return Some("it is suspended".into());
    }
    let ready = find_condition(&repo.status.as_ref()?.conditions, READY)?;
    (!ready.is_true()).then(|| ready.reason.clone())
}

/// Returns true if a ConfigRepo has compared a commit with the hub, so that its requests are recorded. Its status
/// gets the digest of the commit after them.
fn has_judged(repo: &ConfigRepo, commit: &str) -> bool {
    let seen = repo.status.as_ref().and_then(|status| status.seen.as_ref());
    is_about(repo, commit) && seen.is_some_and(|seen| !seen.digest.is_empty())
}

/// Returns true if deletions of a ConfigRepo wait, maybe for others to judge a commit, or if a policy waits for
/// the deletions of others.
pub(super) fn waits(repo: &ConfigRepo) -> bool {
    let conditions = repo.status.iter().flat_map(|status| &status.conditions);
    conditions
        .into_iter()
        .any(|condition| matches!(condition.reason.as_str(), REASON | DELETIONS_HELD | POLICY_HELD))
}
