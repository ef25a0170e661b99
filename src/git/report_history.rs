//! The history of a report branch: what was pushed last is in it, and it has no more commits than allowed.
//!
//! A branch that is long enough begins again with a commit without parents. The commits before it stay: the
//! server keeps them below a reference outside of `refs/heads`, which no clone has, and a trailer of the new
//! commit names the reference.

use git2::{Oid, Repository};

use super::push::{Commit, LastPush};
use super::{Error, Mirror};

/// The trailer that names the process that wrote a report.
const WRITER: &str = "Wheelwright-Writer: ";

/// The trailer that names the reference of the commits before a commit without parents.
const TRAILER: &str = "Wheelwright-Archive: ";

/// Most beginnings of a branch that are gone through to find the last push.
const MAX_BEGINNINGS: usize = 100;

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
    reports: Option<usize>,
}

/// Counts the commits up to a tip; those up to the tip before are not read again.
fn count(repo: &Repository, tip: Oid, before: Option<&Counted>) -> Result<Counted, git2::Error> {
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
fn archived(repo: &Repository, tip: Oid, branch: &str) -> Option<Oid> {
    let mut first = repo.find_commit(tip).ok()?;
    while let Ok(parent) = first.parent(0) {
        first = parent;
    }
    let archive = first.message().ok()?.lines().rev().find_map(|line| line.strip_prefix(TRAILER))?;
    let before = Oid::from_str(archive.rsplit('/').next()?).ok()?;
    (archive == self::archive(branch, before)).then_some(before)
}

impl Mirror {
    /// Returns whether a branch is to begin again: it has as many commits as it may have, and all are reports.
    /// A branch with a commit of somebody else never begins again. A server that refuses is asked again when
    /// the branch has twice as many commits, because each request leaves an archive there.
    pub(super) fn is_full(&self, repo: &Repository, tip: Oid, commit: &Commit) -> Result<bool, git2::Error> {
        let Commit { branch, history_limit: limit, .. } = commit;
        let mut counted = self.counted.borrow_mut();
        let now = count(repo, tip, counted.get(branch))?;
        counted.insert(branch.clone(), now);
        let is_asked = |reports: usize| reports.is_multiple_of(*limit) && (reports / limit).is_power_of_two();
        Ok(now.reports.is_some_and(is_asked))
    }

    /// Refuses a branch that was deleted or rewritten since the last push, where the report stops then.
    pub(super) fn check_last(
        &self,
        repo: &Repository,
        tip: Option<Oid>,
        commit: &Commit,
    ) -> Result<(), Error> {
        let LastPush { commit: last, previous: _, recreates, adopts } = &commit.last;
        let (url, branch, last) = (self.remote().to_string(), commit.branch.clone(), last.clone());
        match tip {
            _ if last.is_empty() => Ok(()),
            None if !recreates => Err(Error::BranchDeleted { url, branch, commit: last }),
            Some(tip) if !adopts && !self.leads_to(repo, tip, &branch, &last)? => {
                Err(Error::BranchRewritten { url, branch, commit: last })
            }
            None | Some(_) => Ok(()),
        }
    }

    /// Returns whether a branch has a commit, or had it before it began again.
    fn leads_to(&self, repo: &Repository, tip: Oid, branch: &str, commit: &str) -> Result<bool, Error> {
        let Ok(commit) = Oid::from_str(commit) else { return Ok(false) };
        let mut tip = tip;
        for _ in 0..MAX_BEGINNINGS {
            if tip == commit || repo.graph_descendant_of(tip, commit).unwrap_or(false) {
                return Ok(true);
            }
            let Some(before) = archived(repo, tip, branch) else { return Ok(false) };
            if repo.find_commit(before).is_err() && self.remote().local().is_none() {
                let archive = archive(branch, before);
                self.download(repo, &[format!("+{archive}:{archive}")])?;
            }
            tip = before;
        }
        // Only reports begin again, so nothing shows that anybody rewrote the branch.
        Ok(true)
    }
}
