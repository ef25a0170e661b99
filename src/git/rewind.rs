//! Steps to a commit that does not follow the one that was accepted last.

use git2::{Oid, Repository};

use super::{Error, RefSpec};

/// The commits that a new commit is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History<'a> {
    /// The commit that was accepted last; the new commit must descend from it.
    pub accepted: Option<&'a str>,
    /// The rewind that a person allowed, as [`rewind`] names it.
    pub allowed: Option<&'a str>,
}

/// Names the step from the accepted commit to one that does not descend from it.
pub fn rewind(from: &str, to: &str) -> String {
    format!("{from}..{to}")
}

/// Refuses a commit that does not descend from the accepted one, unless a person allowed exactly this step.
pub(super) fn guard(
    repo: &Repository,
    want: &RefSpec,
    commit: Oid,
    history: History<'_>,
) -> Result<(), Error> {
    let Some(accepted) = history.accepted else { return Ok(()) };
    // An accepted commit that the mirror does not hold cannot be an ancestor: the history of the new one is
    // fetched until the accepted one is found.
    let descends = Oid::from_str(accepted)
        .is_ok_and(|old| old == commit || repo.graph_descendant_of(commit, old).unwrap_or(false));
    // A tag must not move at all.
    let fine = match want {
        RefSpec::Tag(_) => false,
        RefSpec::Head | RefSpec::Branch(_) | RefSpec::Semver(_) | RefSpec::Commit(_) => descends,
    };
    if fine { Ok(()) } else { guard_step(want, commit, history) }
}

/// Refuses another commit than the accepted one, unless a person allowed exactly this step.
pub(super) fn guard_step(want: &RefSpec, commit: Oid, history: History<'_>) -> Result<(), Error> {
    let (Some(from), to) = (history.accepted, commit.to_string()) else { return Ok(()) };
    if from == to || is_allowed(commit, history) {
        return Ok(());
    }
    Err(Error::Rewound { what: want.to_string(), from: from.to_owned(), to })
}

/// Says that the history of a commit cannot be fetched, unless a person allowed the step to it without.
pub(super) fn history_refused(error: Error, want: &RefSpec, commit: Oid, history: History<'_>) -> Error {
    match (error, history.accepted) {
        (Error::Content(why), Some(from)) if !is_allowed(commit, history) => {
            let (what, from, to) = (want.to_string(), from.to_owned(), commit.to_string());
            Error::HistoryRefused { what, from, to, why }
        }
        (error, _) => error,
    }
}

/// Returns true if a person allowed exactly the step from the accepted commit to another one.
pub(super) fn is_allowed(commit: Oid, history: History<'_>) -> bool {
    let step = history.accepted.map(|from| rewind(from, &commit.to_string()));
    step.is_some() && history.allowed == step.as_deref()
}
