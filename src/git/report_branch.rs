//! Checks of a branch before a report is pushed: it contains the last push, and it does not exceed its commit
//! limit.

use git2::{Oid, Repository};

use super::commit::{Commit, LastPush};
use super::report_history::{archive, archived, count};
use super::shallow::WHOLE;
use super::{Error, Mirror};

/// The maximum number of restarts of a branch to search for the last push.
const MAX_BEGINNINGS: usize = 100;

impl Mirror {
    /// Returns true if a branch must be restarted: it has reached its commit limit, and all commits are
    /// reports. A branch with other commits never restarts. If the server refuses, it is asked again when the
    /// branch has twice as many commits, because each attempt leaves an archive on the server.
    pub(super) fn is_full(&self, repo: &Repository, tip: Oid, commit: &Commit) -> Result<bool, git2::Error> {
        let Commit { branch, history_limit: limit, .. } = commit;
        let mut counted = self.counted.borrow_mut();
        let now = count(repo, tip, counted.get(branch))?;
        counted.insert(branch.clone(), now);
        let is_asked = |reports: usize| reports.is_multiple_of(*limit) && (reports / limit).is_power_of_two();
        Ok(now.reports.is_some_and(is_asked))
    }

    /// Rejects a branch that was deleted or rewritten since the last push, if the report must then stop.
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

    /// Returns true if a branch contains a commit, or contained it before a restart.
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
                self.download(repo, &[format!("+{archive}:{archive}")], WHOLE)?;
            }
            tip = before;
        }
        // A restart only drops reports, so nothing indicates that somebody rewrote the branch.
        Ok(true)
    }
}
