//! Moves to a commit that does not descend from the last accepted one.

use git2::{Oid, Repository};

use super::{Error, RefSpec};

/// The commits to compare a new commit with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History<'a> {
    /// The last accepted commit; the new commit must descend from it.
    pub accepted: Option<&'a str>,
    /// The rewind that a person allowed, in the format of [`rewind`].
    pub allowed: Option<&'a str>,
}

/// Returns the name of the move from the accepted commit to one that does not descend from it.
pub fn rewind(from: &str, to: &str) -> String {
    format!("{from}..{to}")
}

/// Rejects a commit that does not descend from the accepted one, unless a person allowed exactly this move.
pub(super) fn guard(
    repo: &Repository,
    want: &RefSpec,
    commit: Oid,
    history: History<'_>,
) -> Result<(), Error> {
    let Some(accepted) = history.accepted else { return Ok(()) };
    // If the mirror lacks the accepted commit, it is not an ancestor: the new commit's history was fetched
    // until the accepted one was found.
    let descends = Oid::from_str(accepted)
        .is_ok_and(|old| old == commit || repo.graph_descendant_of(commit, old).unwrap_or(false));
    // A tag must not move at all.
    let fine = match want {
        RefSpec::Tag(_) => false,
        RefSpec::Head | RefSpec::Branch(_) | RefSpec::Semver(_) | RefSpec::Commit(_) => descends,
    };
    if fine { Ok(()) } else { guard_step(want, commit, history) }
}

/// Rejects any commit except the accepted one, unless a person allowed exactly this move.
pub(super) fn guard_step(want: &RefSpec, commit: Oid, history: History<'_>) -> Result<(), Error> {
    let (Some(from), to) = (history.accepted, commit.to_string()) else { return Ok(()) };
    if from == to || is_allowed(commit, history) {
        return Ok(());
    }
    Err(Error::Rewound { what: want.to_string(), from: from.to_owned(), to })
}

/// Converts an error to [`Error::HistoryRefused`], unless a person allowed the move without the history.
pub(super) fn history_refused(error: Error, want: &RefSpec, commit: Oid, history: History<'_>) -> Error {
    match (error, history.accepted) {
        (Error::Content(reason), Some(from)) if !is_allowed(commit, history) => {
            let (what, from, to) = (want.to_string(), from.to_owned(), commit.to_string());
            Error::HistoryRefused { what, from, to, reason }
        }
        (error, _) => error,
    }
}

/// Returns true if a person allowed exactly the move from the accepted commit to this one.
pub(super) fn is_allowed(commit: Oid, history: History<'_>) -> bool {
    let step = history.accepted.map(|from| rewind(from, &commit.to_string()));
    step.is_some() && history.allowed == step.as_deref()
}
