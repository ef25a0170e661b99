//! The commits and tags that must be signed.

use std::sync::Arc;

use git2::{Oid, Repository};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::{Keyring, Refusal, object};
use crate::git::Error;
use object::Signed;

/// The maximum number of commits to verify at once. Each takes less than a millisecond.
const MAX_COMMITS: usize = 10_000;

/// The objects that must be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignedPart {
    /// The target of the reference: the annotated tag, or the commit.
    Tip,
    /// Every commit that is not accepted yet, and the annotated tag if there is one.
    Range,
}

/// The signatures that a fetch requires.
#[derive(Clone, Debug)]
pub struct Verification {
    /// The trusted keys.
    pub keys: Arc<Keyring>,
    /// The objects that must be signed.
    pub part: SignedPart,
    /// The last accepted commit. It and its ancestors are not verified again.
    pub accepted: Option<String>,
    /// The time at which the keys must be valid.
    pub now: Timestamp,
}

/// The target of a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::git) struct RefTarget {
    pub(in crate::git) commit: Oid,
    /// The annotated tag that points to the commit, and the tag's name on the server.
    pub(in crate::git) tag: Option<(Oid, String)>,
}

/// Verifies the target of a reference, and with [`SignedPart::Range`] all commits since the accepted one.
///
/// # Errors
/// [`Error::NotVerified`] names the first rejected commit or tag.
pub(in crate::git) fn verify(
    repo: &Repository,
    subject: &RefTarget,
    accepted: Option<&str>,
    how: &Verification,
    cancel: &CancellationToken,
) -> Result<(), Error> {
    if let Some((tag, name)) = &subject.tag {
        let what = || format!("tag {} ({tag})", ::object::text::plain(name, 60));
        check(repo, *tag, how, what, |raw| object::tag(raw, name))?;
    }
    let commits = match how.part {
        SignedPart::Tip if subject.tag.is_some() => Vec::new(),
        SignedPart::Tip => vec![subject.commit],
        SignedPart::Range => commits(repo, subject.commit, accepted)?,
    };
    for commit in commits {
        if cancel.is_cancelled() {
            return Err(Error::Cache("the verification was canceled".into()));
        }
        check(repo, commit, how, || format!("commit {commit}"), object::commit)?;
    }
    Ok(())
}

/// Returns the tip and all its ancestors that are not ancestors of the accepted commit, oldest first. Without
/// an accepted commit, returns the tip.
fn commits(repo: &Repository, tip: Oid, accepted: Option<&str>) -> Result<Vec<Oid>, Error> {
    let failed = |e: git2::Error| Error::cache(&e);
    let known = accepted.and_then(|accepted| Oid::from_str(accepted).ok());
    let Some(known) = known.filter(|known| *known != tip && repo.find_commit(*known).is_ok()) else {
        return Ok(vec![tip]);
    };
    let mut walk = repo.revwalk().map_err(failed)?;
    walk.set_sorting(git2::Sort::TOPOLOGICAL | git2::Sort::REVERSE).map_err(failed)?;
    walk.push(tip).and_then(|()| walk.hide(known)).map_err(failed)?;
    let mut commits = Vec::new();
    for commit in walk {
        commits.push(commit.map_err(failed)?);
        if commits.len() > MAX_COMMITS {
            return Err(Error::Content(format!(
                "more than {MAX_COMMITS} commits between {known} and {tip}, too many to verify; set spec.verify.mode to Tip for one fetch"
            )));
        }
    }
    // After an allowed rewind, the tip may be an ancestor of the accepted commit.
    if commits.is_empty() {
        commits.push(tip);
    }
    Ok(commits)
}

fn check(
    repo: &Repository,
    id: Oid,
    how: &Verification,
    what: impl FnOnce() -> String,
    split: impl FnOnce(&[u8]) -> Result<Signed, Refusal>,
) -> Result<(), Error> {
    let odb = repo.odb().map_err(|e| Error::cache(&e))?;
    let raw = odb.read(id).map_err(|e| Error::cache(&e))?;
    let signer = split(raw.data()).and_then(|signed| how.keys.verify(&signed, how.now));
    signer.map(drop).map_err(|refusal| Error::NotVerified { what: what(), refusal })
}
