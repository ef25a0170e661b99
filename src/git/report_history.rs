//! The history of a report branch, as recorded in its commit messages.
//!
//! A branch that is long enough restarts with a commit without parents. The earlier commits stay: the server
//! keeps them under a reference outside of `refs/heads`, which clones do not fetch. A trailer of the new commit
//! names the reference.

use git2::{Oid, Repository};

/// The trailer that names the process that wrote a report.
const WRITER: &str = "Wheelwright-Writer: ";

/// The trailer that names the reference to the commits before a restart.
const TRAILER: &str = "Wheelwright-Archive: ";

/// Returns the reference that archives a commit of a branch.
pub(super) fn archive(branch: &str, commit: Oid) -> String {
    format!("refs/wheelwright/archive/{branch}/{commit}")
}

/// Returns the message of a commit that restarts a branch.
pub(super) fn begin(message: &str, archive: &str) -> String {
    format!("{message}{TRAILER}{archive}\n")
}

/// Returns the message of a commit by the writer of a report.
pub(super) fn written_by(message: &str, writer: &str) -> String {
    format!("{message}{WRITER}{writer}\n")
}

/// Returns true if the message of a commit is from a report.
pub(super) fn is_report(commit: &git2::Commit<'_>) -> bool {
    commit.message().is_ok_and(|text| text.lines().any(|line| line.starts_with(WRITER)))
}

/// The commits of a branch, up to the last counted tip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    tip: Oid,
    /// The number of commits; `None` if one of them is not a report.
    pub(super) reports: Option<usize>,
}

/// Counts the commits up to a tip. Commits up to the previous tip are not read again.
pub(super) fn count(repo: &Repository, tip: Oid, before: Option<&Counted>) -> Result<Counted, git2::Error> {
    let (mut new, mut next) = (0_usize, Some(tip));
    while let Some(id) = next {
        if let Some(before) = before.filter(|before| before.tip == id) {
            return Ok(Counted { tip, reports: before.reports.map(|reports| reports + new) });
        }
        let commit = repo.find_commit(id)?;
        if !is_report(&commit) || commit.parent_count() > 1 {
            return Ok(Counted { tip, reports: None });
        }
        new += 1;
        next = commit.parent_ids().next();
    }
    Ok(Counted { tip, reports: Some(new) })
}

/// Returns the last commit of a branch before its restart.
pub(super) fn archived(repo: &Repository, tip: Oid, branch: &str) -> Option<Oid> {
    let mut first = repo.find_commit(tip).ok()?;
    while let Ok(parent) = first.parent(0) {
        first = parent;
    }
    let archive = first.message().ok()?.lines().rev().find_map(|line| line.strip_prefix(TRAILER))?;
    let before = Oid::from_str(archive.rsplit('/').next()?).ok()?;
    (archive == self::archive(branch, before)).then_some(before)
}
