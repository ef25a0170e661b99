//! Compares live objects with a commit in the same way as the API server.
//!
//! API servers normalize some values when they store them: quantities, the `stringData` of a Secret, and empty
//! values. Therefore only objects that read the same are known to be equal. For all others, a dry run of a
//! server-side apply shows the result.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::identity::RepoIdentity;
use super::read::Commit;
use engine::sync::{ApplyRule, ObjectId, SyncPolicy, Takeover, argo_application, content, is_marked};
use object::fields::first_difference;
use object::{Key, Object};
use reconcile::{Read, ReadErrorReason, View};

/// Number of differences after which no more dry runs are made. Each is a request, and the commit is not applied
/// anyway.
const ENOUGH: usize = 10;

/// Compares objects one after the other.
pub(super) struct Comparison<'a, V> {
    identity: &'a RepoIdentity,
    view: &'a V,
    /// The number of differences that the API server has confirmed.
    confirmed: usize,
}

impl<'a, V: View> Comparison<'a, V> {
    pub(super) fn new(identity: &'a RepoIdentity, view: &'a V) -> Self {
        Self { identity, view, confirmed: 0 }
    }

    /// Returns a field in which the live object differs from the commit; `None` if the API server would leave the
    /// object unchanged.
    ///
    /// # Errors
    /// Fails if the API server has not responded yet.
    pub(super) fn difference(&mut self, live: &Object, wanted: &Object) -> Read<Option<String>> {
        let Some(field) = first_difference(live, wanted) else { return Ok(None) };
        if self.confirmed >= ENOUGH {
            return Ok(Some(field));
        }
        let difference = match self.view.dry_run(self.identity.comparison(wanted, live)) {
            Ok(Some(applied)) => first_difference(live, &content(&applied)),
            Ok(None) => Some(field),
            // Without the permission to write an object, compare it as read.
            Err(error) if error.reason == ReadErrorReason::Failed => {
                Some(format!("{field} (or only its format; {})", error.cause))
            }
            Err(error) => return Err(error),
        };
        self.confirmed += usize::from(difference.is_some());
        Ok(difference)
    }
}

/// Compares the objects that others created, which a ConfigRepo takes over if they do not differ.
///
/// # Errors
/// Fails if the API server has not responded yet.
pub(super) fn of_others(
    commit: &Commit<'_>,
    policy: &SyncPolicy,
    view: &impl View,
) -> Read<BTreeMap<ObjectId, Option<String>>> {
    let mut differences = BTreeMap::new();
    if policy.takeover != Takeover::IfNoDiff {
        return Ok(differences);
    }
    let (repo, mut unanswered) = (Key::of(commit.repo), None);
    let mut comparison = Comparison::new(&commit.identity, view);
    let is_compared = |live: &Arc<Object>| !is_marked(live, &repo) && argo_application(live).is_none();
    for wanted in &commit.desired.objects {
        if !matches!(wanted.apply, ApplyRule::Always | ApplyRule::Merge) {
            continue;
        }
        // The plan reports a failed read.
        let Some(live) = view.observed(&wanted.reference).ok().flatten().filter(is_compared) else {
            continue;
        };
        match comparison.difference(&live, &wanted.compared(&policy.ignore)) {
            Ok(difference) => {
                differences.insert(ObjectId::of(&wanted.reference), difference);
            }
            Err(error) => unanswered = Some(error),
        }
    }
    unanswered.map_or(Ok(differences), Err)
}
