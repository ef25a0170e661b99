//! Verifies the signatures of a commit if its ConfigRepo requires them.

use k8s_openapi::api::core::v1::Secret;

use crate::cli::CommandError;
use crate::git::{Verification, is_artifact};
use crate::operator::source::verification;
use api::gitops::v1alpha1::ConfigRepo;
use object::{Gvk, Key, Metadata as _, Object};

/// The result of the operator's checks before it renders a commit.
pub(super) enum CommitCheck {
    /// The commit follows the accepted one, and its signatures are valid.
    Valid,
    /// The signatures cannot be verified without this Secret.
    Unverified(Key),
    /// The operator would reject the commit, for this reason.
    Refused(String),
}

/// Verifies the signatures of a commit as the operator does before it renders one. `refused` returns the reason
/// why signatures are not accepted. The keys are in a Secret among `objects`. An artifact may be signed after its
/// plan, so its signature is not verified.
///
/// # Errors
/// Fails if the repository or a key cannot be read.
pub(super) fn verify(
    repo: &ConfigRepo,
    objects: &[Object],
    refused: impl FnOnce(&Verification) -> Result<Option<String>, CommandError>,
) -> Result<CommitCheck, CommandError> {
    let verify = repo.spec.verify.as_ref().filter(|_| !is_artifact(&repo.spec.url));
    let Some(verify) = verify else { return Ok(CommitCheck::Valid) };
    let key = verify.secret_ref.key(repo.namespace());
    let is_it = |object: &&Object| object.gvk() == Gvk::of::<Secret>() && object.key() == key;
    let secret = objects.iter().find(is_it).and_then(|object| object.to_typed::<Secret>().ok());
    let Some(secret) = secret else { return Ok(CommitCheck::Unverified(key)) };
    let status = repo.status.as_ref();
    let accepted = status.and_then(|status| status.applied.as_ref()).map(|applied| applied.commit.clone());
    let verification = verification(verify, &secret.data.unwrap_or_default(), accepted)?;
    Ok(refused(&verification)?.map_or(CommitCheck::Valid, CommitCheck::Refused))
}
