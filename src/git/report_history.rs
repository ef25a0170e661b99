//! The history of a report branch, which the messages of its commits tell.
//!
//! A branch that is long enough begins again with a commit without parents. The commits before it stay: the
//! server keeps them below a reference outside of `refs/heads`, which no clone has, and a trailer of the new
//! commit names the reference.

use git2::{Oid, Repository};

/// The trailer that names the process that wrote a report.
const WRITER: &str = "Wheelwright-Writer: ";

/// The trailer that names the reference of the commits before a commit without parents.
const TRAILER: &str = "Wheelwright-Archive: ";

/// Returns the reference that keeps a commit of a branch.
pub(super) fn archive(branch: &str, commit: Oid) -> String {
    format!("refs/wheelwright/archive/{branch}/{commit}")
}

/// Returns the message of a commit without parents.
pub(super) fn begin(message: &str, archive: &str) -> String {
    format!("{message}{TRAILER}{archive}\n")
}

/// Returns the message of a commit by a writer of reports.
pub(super) fn written_by(message: &str, writer: &str) -> String {
    format!("{message}{WRITER}{writer}\n")
}

/// Returns whether the message of a commit is that of a report.
pub(super) fn is_report(commit: &git2::Commit<'_>) -> bool {
    commit.message().is_ok_and(|text| text.lines().any(|line| line.starts_with(WRITER)))
}

/// The commits of a branch, up to the tip that was looked at last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    tip: Oid,
    /// `None` if one of them is no report.
    pub(super) reports: Option<usize>,
}

/// Counts the commits up to a tip; those up to the tip before are not read again.
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

/// Returns the commit that a branch had before it began again.
pub(super) fn archived(repo: &Repository, tip: Oid, branch: &str) -> Option<Oid> {
    let mut first = repo.find_commit(tip).ok()?;
    while let Ok(parent) = first.parent(0) {
        first = parent;
    }
    let archive = first.message().ok()?.lines().rev().find_map(|line| line.strip_prefix(TRAILER))?;
    let before = Oid::from_str(archive.rsplit('/').next()?).ok()?;
    (archive == self::archive(branch, before)).then_some(before)
}
