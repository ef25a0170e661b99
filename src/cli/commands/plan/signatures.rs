//! Verifies the signatures of a commit, where its ConfigRepo asks for them.

use k8s_openapi::api::core::v1::Secret;

use crate::cli::CommandError;
use crate::git::Verification;
use crate::operator::source::verification;
use api::gitops::v1alpha1::ConfigRepo;
use object::{Gvk, Key, Metadata as _, Object};

/// What the operator says to a commit before it renders it.
pub(super) enum CommitCheck {
    /// It follows the accepted commit, and is signed as it must be.
    Valid,
    /// The signatures cannot be verified without this Secret.
    Unverified(Key),
    /// It is refused.
    Refused(String),
}

/// Verifies the signatures of a commit as the operator does before it renders one; `refused` says why they do
/// not count. The keys are those of a Secret among `objects`.
///
/// # Errors
/// The repository or a key cannot be read.
pub(super) fn verify(
    repo: &ConfigRepo,
    objects: &[Object],
    refused: impl FnOnce(&Verification) -> Result<Option<String>, CommandError>,
) -> Result<CommitCheck, CommandError> {
    let Some(verify) = &repo.spec.verify else { return Ok(CommitCheck::Valid) };
    let key = verify.secret_ref.key(repo.namespace());
    let is_it = |object: &&Object| object.gvk() == Gvk::of::<Secret>() && object.key() == key;
    let secret = objects.iter().find(is_it).and_then(|object| object.to_typed::<Secret>().ok());
    let Some(secret) = secret else { return Ok(CommitCheck::Unverified(key)) };
    let status = repo.status.as_ref();
    let accepted = status.and_then(|status| status.applied.as_ref()).map(|applied| applied.commit.clone());
    let verification = verification(verify, &secret.data.unwrap_or_default(), accepted)?;
    Ok(refused(&verification)?.map_or(CommitCheck::Valid, CommitCheck::Refused))
}
