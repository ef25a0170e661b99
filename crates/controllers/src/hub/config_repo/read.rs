//! Reads the newest commit of a repository: everything that can fail before it is compared with the hub.

use std::sync::Arc;

use jiff::Timestamp;

use super::charts;
use super::commit::{self, Incomplete};
use super::depends;
use super::gate::Gate;
use super::identity::RepoIdentity;
use super::inventory::Recorded;
use super::random_values;
use super::status::revision;
use api::gitops::v1alpha1::{ConfigRepo, RenderedPath, Revision};
use engine::sync::{self, ApplyRule, Desired, DesiredObject};
use object::Gvk;
use object::text::short_commit;
use object::tree::Checkout;
use reconcile::{Source, View};

/// The newest commit of a repository, and who applies it.
pub(super) struct Commit<'a> {
    pub(super) repo: &'a ConfigRepo,
    pub(super) source: &'a Source,
    pub(super) checkout: &'a Arc<Checkout>,
    pub(super) identity: RepoIdentity,
    pub(super) recorded: Recorded,
    /// The gate of its dependencies, if it waits for them.
    pub(super) unmet: Option<Gate>,
    /// Its objects; none if it is incomplete.
    pub(super) desired: Arc<Desired>,
    /// The directories that match `spec.paths`.
    pub(super) paths: Vec<RenderedPath>,
    /// The remote charts that it refers to, as far as they are known.
    pub(super) charts: Vec<String>,
    /// The reason that it has no objects.
    pub(super) incomplete: Option<Gate>,
}

impl<'a> Commit<'a> {
    /// Reads the newest commit.
    ///
    /// # Errors
    /// Fails if there is none, if it is still being rendered, or if a read failed.
    pub(super) fn read(
        repo: &'a ConfigRepo,
        source: Option<&'a Source>,
        view: &impl View,
    ) -> Result<Self, Gate> {
        if repo.spec.suspend {
            return Err(Gate::Suspended);
        }
        let identity = RepoIdentity::of(repo, view)?.map_err(|problem| Gate::NotAllowed(vec![problem]))?;
        let source = source.ok_or(Gate::NotFetched)?;
        let checkout = source.checkout.as_ref().ok_or(Gate::NotFetched)?;
        let recorded = Recorded::of(repo, view)?;
        let unmet = depends::unmet(repo, checkout, view)?;
        let mut charts = charts::requested(repo);
        let mut paths = Vec::new();
        let (desired, incomplete) = match commit::completed(repo, checkout, view)? {
            Ok(desired) => {
                paths = commit::paths(repo, checkout, view)?;
                if !charts.is_empty() {
                    charts = commit::charts(repo, checkout, view)?;
                }
                (desired, None)
            }
            Err(Incomplete::Problems(problems)) => (Arc::default(), Some(Gate::Refused(problems.to_vec()))),
            Err(Incomplete::Undrawn(releases)) => {
                (Arc::default(), Some(random_values::gate(repo, source, releases)))
            }
            Err(Incomplete::Unfetched(all)) => match charts::too_many(&all) {
                Some(problem) => (Arc::default(), Some(Gate::Refused(vec![problem]))),
                None => {
                    charts.clone_from(&all);
                    (Arc::default(), Some(Gate::Fetching))
                }
            },
        };
        Ok(Self { repo, source, checkout, identity, recorded, unmet, desired, paths, charts, incomplete })
    }

    /// Returns the kinds of the objects that it wants and of those that the ConfigRepo owns.
    pub(super) fn kinds(&self) -> Vec<Gvk> {
        sync::kinds(&self.desired.objects, &self.recorded.objects)
    }

    /// Returns its short hash.
    pub(super) fn name(&self) -> &'a str {
        short_commit(&self.checkout.revision)
    }

    /// Returns it for the status; `before` is the revision that was recorded there.
    pub(super) fn revision(&self, before: Option<&Revision>, now: Timestamp) -> Option<Revision> {
        Some(revision(before, self.checkout, self.repo, &self.desired.digest, now))
    }

    /// Returns the objects that must exist on the hub. Argo CD applies a hook at a certain point of its sync, and
    /// often deletes it afterwards.
    pub(super) fn expected(&self) -> impl Iterator<Item = &Arc<DesiredObject>> {
        self.desired.objects.iter().filter(|one| one.apply != ApplyRule::Ignore && one.hook().is_none())
    }

    /// Returns the number of objects that it applies.
    pub(super) fn wanted(&self) -> usize {
        self.desired.objects.iter().filter(|one| one.apply != ApplyRule::Ignore).count()
    }

    /// Returns true if all of its objects were applied, so that it changes nothing.
    pub(super) fn is_applied(&self) -> bool {
        self.applied_digest() == self.desired.digest
    }

    /// Returns the digest of the objects that were applied last; empty if there are none.
    pub(super) fn applied_digest(&self) -> &'a str {
        let applied = self.repo.status.as_ref().and_then(|status| status.applied.as_ref());
        applied.map_or("", |applied| applied.digest.as_str())
    }
}
