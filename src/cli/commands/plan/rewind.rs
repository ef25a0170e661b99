//! Predicts whether the operator would reject a commit as a rewind of its branch.

use crate::cli::CommandError;
use crate::cli::checkout::Revisions;
use crate::git::{History, RefSpec};
use crate::operator::source::{history, message, ref_spec};
use api::gitops::v1alpha1::{ConfigRepo, RewindPolicy};
use object::tree::Checkout;
use reconcile::Source;

/// Returns the reason why the operator would reject a commit as a rewind of the base or, without a base, of the
/// last accepted commit; `None` if it would accept the commit. ConfigRepos that follow a tag or a commit are not
/// checked, because they only change by an edit.
///
/// # Errors
/// Fails if the repository cannot be read.
pub(super) fn refused(
    repo: &ConfigRepo,
    repository: &Revisions,
    base: Option<&Checkout>,
    head: &Checkout,
) -> Result<Option<String>, CommandError> {
    let Ok(want @ RefSpec::Branch(_)) = ref_spec(&repo.spec.r#ref) else { return Ok(None) };
    if repo.spec.rewind == RewindPolicy::Allow {
        return Ok(None);
    }
    let (recorded, allowed) = history(repo, &Source::default());
    let accepted = base.map(|base| base.revision.as_str()).or(recorded.as_deref());
    let rewound =
        repository.rewind(&want, &head.revision, History { accepted, allowed: allowed.as_deref() })?;
    Ok(rewound.map(|error| {
        format!("{}. If the commit is only behind, merge the branch into it, or rebase it", message(&error))
    }))
}
