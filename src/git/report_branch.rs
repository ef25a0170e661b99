//! What is checked of a branch before a report is pushed: it holds what was pushed last, and it has no more
//! commits than allowed.

use git2::{Oid, Repository};

use super::commit::{Commit, LastPush};
use super::report_history::{archive, archived, count};
use super::shallow::WHOLE;
use super::{Error, Mirror};

/// Most beginnings of a branch that are gone through to find the last push.
const MAX_BEGINNINGS: usize = 100;

impl Mirror {
    /// Returns whether a branch is to begin again: it has as many commits as it may have, and all are
    /// reports. A branch with a commit of somebody else never begins again. A server that refuses is asked
    /// again when the branch has twice as many commits, because each request leaves an archive there.
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
                self.download(repo, &[format!("+{archive}:{archive}")], WHOLE)?;
            }
            tip = before;
        }
        // Only reports begin again, so nothing shows that anybody rewrote the branch.
        Ok(true)
    }
}
