//! Logs each fully applied commit: its effect on the hub's objects, and its duration.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use tracing::info;

use crate::shell::{Activity, ActivityKind};
use api::gitops::v1alpha1::ConfigRepo;
use api::names;
use object::Key;
use reconcile::{Action, Caches, View as _};

const CONTROLLER: &str = "config-repo";

/// The commits being applied, by ConfigRepo.
#[derive(Default)]
pub(super) struct AppliedLog(Mutex<BTreeMap<Key, Applying>>);

/// The work for a ConfigRepo since its last commit was applied.
#[derive(Default)]
struct Applying {
    /// The last fetched commit.
    commit: String,
    /// The time at which the work for it started.
    began: Option<Timestamp>,
    /// The caches at that time.
    before: Option<Caches>,
    created: usize,
    changed: usize,
    deleted: usize,
    /// The last applied commit, and the digest of its objects.
    last: Option<(String, String)>,
}

impl AppliedLog {
    pub(super) fn observe(&self, activity: &Activity<'_>) {
        let Activity { caches, began, ended, kind } = activity;
        match kind {
            ActivityKind::Computed { controller: CONTROLLER, key, name: _ } => {
                self.change(caches, key, *began, |_| {});
            }
            ActivityKind::Acted { act, outcome: Ok(_) } if act.controller == CONTROLLER => {
                let action = act.action();
                self.change(caches, &act.key, *began, |applying| applying.count(action));
            }
            ActivityKind::Reconciled(result)
                if result.controller == CONTROLLER && result.failure.is_none() =>
            {
                self.change(caches, &result.key, *began, |applying| {
                    applying.reconciled(&result.key, caches, *ended);
                });
            }
            ActivityKind::Computed { .. } | ActivityKind::Acted { .. } | ActivityKind::Reconciled(_) => {}
        }
    }

    fn change(&self, caches: &Caches, key: &Key, began: Timestamp, change: impl FnOnce(&mut Applying)) {
        let source = caches.source(key);
        let checkout = source.as_ref().and_then(|source| source.checkout.as_ref());
        let Some(commit) = checkout.map(|checkout| checkout.revision.as_str()) else { return };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A new process does not log again what an earlier one applied.
        let start = || Applying { last: applied(caches, key), ..Applying::default() };
        let applying = all.entry(key.clone()).or_insert_with(start);
        if applying.commit != commit {
            *applying =
                Applying { commit: commit.to_owned(), last: applying.last.take(), ..Applying::default() };
        }
        applying.began.get_or_insert(began);
        // Cheap: a clone shares all objects.
        applying.before.get_or_insert_with(|| caches.clone());
        change(applying);
    }
}

impl Applying {
    /// Counts a successful write.
    fn count(&mut self, action: &Action) {
        match action {
            Action::Apply { object, dry_run: false, .. }
                if object.annotations().contains_key(names::CONFIG_REPO_ANNOTATION) =>
            {
                // A watch may already have reported the object, so compare with the earlier caches.
                let before =
                    self.before.as_ref().and_then(|before| before.observed(&object.reference()).ok()?);
                match before {
                    Some(_) => self.changed += 1,
                    None => self.created += 1,
                }
            }
            Action::Delete { .. } => self.deleted += 1,
            Action::Apply { .. }
            | Action::Create { .. }
            | Action::Patch { .. }
            | Action::Replace { .. }
            | Action::Push(_)
            | Action::SetCommitStatus(_)
            | Action::Notify(_) => {}
        }
    }

    /// Logs the commit if the ConfigRepo now reports it as applied. Keeps counting if it is only partly
    /// applied.
    fn reconciled(&mut self, key: &Key, caches: &Caches, now: Timestamp) {
        let Some(repo) = caches.get::<ConfigRepo>(key).ok().flatten() else { return };
        let applied = applied(caches, key);
        let is_new = applied != self.last;
        let is_partial = repo.status.as_ref().is_some_and(|status| status.partial.is_some());
        if !is_new && is_partial {
            return;
        }
        if let Some((commit, _)) = applied.as_ref().filter(|_| is_new) {
            let owned = repo.status.as_ref().and_then(|status| status.objects).unwrap_or_default();
            let Self { created, changed, deleted, began, .. } = *self;
            let unchanged = usize::try_from(owned).unwrap_or_default().saturating_sub(created + changed);
            let took = now.duration_since(began.unwrap_or(now)).as_secs_f64();
            let duration = format!("{took:.1}s");
            info!(repo = %key, commit, created, changed, deleted, unchanged, duration, "applied");
        }
        *self = Self { commit: std::mem::take(&mut self.commit), last: applied, ..Self::default() };
    }
}

/// Returns the last applied commit of a ConfigRepo, with the digest of its objects.
fn applied(caches: &Caches, key: &Key) -> Option<(String, String)> {
    let repo = caches.get::<ConfigRepo>(key).ok().flatten()?;
    let applied = repo.status.as_ref()?.applied.as_ref()?;
    Some((applied.commit.clone(), applied.digest.clone()))
}
