//! Commits files from memory, and pushes with compare-and-swap.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::time::Duration;

use git2::{Direction, ErrorCode, Oid, PushOptions, RemoteRedirect, Repository};

use super::commit::{Commit, Written, write_commit};
use super::mirror::mirror_ref;
use super::read::refuse_deep;
use super::report_history;
use super::shallow::Boundary;
use super::{Error, Mirror};
use object::text;

/// Limits the retries of a push that loses races against other writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The number of attempts.
    pub attempts: u32,
    /// The wait after the first attempt. Each later wait is 1.6 times as long, plus or minus half.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
}

impl Default for Retry {
    /// Returns twelve attempts, which wait for about 50 s in total.
    fn default() -> Self {
        Self { attempts: 12, first: Duration::from_millis(200), longest: Duration::from_secs(10) }
    }
}

impl Retry {
    /// Returns the wait after an attempt, counted from 0. The commit id spreads the waits, because it differs
    /// between writers.
    pub(super) fn wait(&self, attempt: u32, commit: Oid) -> Duration {
        let grown = self.first.as_secs_f64() * 1.6_f64.powi(i32::try_from(attempt).unwrap_or(i32::MAX));
        let spread = 0.5 + f64::from(commit.as_bytes().first().copied().unwrap_or_default()) / 256.0;
        Duration::try_from_secs_f64(grown * spread).unwrap_or(self.longest).min(self.longest)
    }
}

/// The result of one attempt.
pub(super) enum Attempt {
    /// The branch already has these files.
    Unchanged,
    /// The branch is now at our commit.
    Pushed(Oid),
    /// Another client pushed in between, so the commit must be rebuilt.
    Stale(Oid),
}

impl Mirror {
    /// Commits files on top of the current branch, and pushes. Returns the commit, or `None` if the branch
    /// already has the files. Keeps files and commits of others: before a branch is restarted, the server keeps
    /// its commits in an archive.
    ///
    /// # Errors
    /// Returns [`Error::NotOurs`] if the directory has files of another owner, [`Error::Fenced`] if another
    /// process with the same owner wrote there and the commit may not take over, [`Error::BranchDeleted`] or
    /// [`Error::BranchRewritten`] if the settings of the last push require a stop, [`Error::PushRejected`] if
    /// the server accepted the connection but rejected the commit, and [`Error::PushContended`] if other
    /// clients won every race. Otherwise, see [`Mirror::fetch`].
    pub fn push(&self, commit: &Commit, retry: &Retry) -> Result<Option<String>, Error> {
        let reference = commit.reference();
        if commit.branch.starts_with('-') || !git2::Reference::is_valid_name(&reference) {
            return Err(Error::Ref(format!(
                "{:?} is not a valid branch name",
                text::plain(&commit.branch, 60)
            )));
        }
        let pushed = self.try_push(commit, retry);
        self.keep_small()?;
        pushed
    }

    fn try_push(&self, commit: &Commit, retry: &Retry) -> Result<Option<String>, Error> {
        self.retry(&commit.branch, retry, || match self.remote().local() {
            Some(path) => self.try_local(path, commit),
            None => self.try_remote(commit),
        })
    }

    /// Retries a push to a branch while other clients win the race.
    pub(super) fn retry(
        &self,
        branch: &str,
        retry: &Retry,
        push: impl Fn() -> Result<Attempt, Error>,
    ) -> Result<Option<String>, Error> {
        for attempt in 0..retry.attempts {
            match push()? {
                Attempt::Unchanged => return Ok(None),
                Attempt::Pushed(commit) => return Ok(Some(commit.to_string())),
                Attempt::Stale(_) if self.cancel.is_cancelled() => {
                    return Err(Error::Cancelled { url: self.remote().to_string(), received: 0 });
                }
                Attempt::Stale(commit) => std::thread::sleep(retry.wait(attempt, commit)),
            }
        }
        Err(Error::PushContended {
            url: self.remote().to_string(),
            branch: branch.to_owned(),
            attempts: retry.attempts,
        })
    }

    /// Creates the commit in a local repository and swaps the reference there, because libgit2's push to a
    /// local repository overwrites references without a comparison. Hooks of a local repository do not run.
    fn try_local(&self, path: &Path, commit: &Commit) -> Result<Attempt, Error> {
        let reference = &commit.reference();
        let explain = |e: git2::Error| Error::remote(self.remote().url(), &e);
        let repo = Repository::open(path).map_err(explain)?;
        let checked_out = repo
            .find_reference("HEAD")
            .is_ok_and(|head| head.symbolic_target().is_ok_and(|name| name == Some(reference.as_str())));
        if checked_out && !repo.is_bare() {
            return Err(self.rejected(&commit.branch, "the branch is checked out there"));
        }
        let tip = local_tip(&repo, reference).map_err(explain)?;
        self.check_last(&repo, tip, commit)?;
        let full = tip.filter(|tip| self.is_full(&repo, *tip, commit).unwrap_or(false));
        let archive = full.map(|tip| (tip, report_history::archive(&commit.branch, tip)));
        let name = archive.as_ref().map(|(_, name)| name.as_str());
        let id = match write_commit(&repo, tip, commit, name).map_err(explain)? {
            Written::Unsigned(error) => return Err(error),
            Written::Unchanged => return Ok(Attempt::Unchanged),
            Written::NotOurs(what) => return Err(self.not_ours(commit, what)),
            Written::Fenced(writer) => return Err(self.fenced(commit, &writer)),
            Written::Commit(id) => id,
        };
        if let Some((tip, name)) = archive {
            let archived = repo.reference(&name, tip, true, "wheelwright: archive");
            if let Attempt::Stale(id) = swapped(archived, id).map_err(explain)? {
                return Ok(Attempt::Stale(id));
            }
        }
        swap(&repo, reference, tip, id).map_err(explain)
    }

    fn try_remote(&self, commit: &Commit) -> Result<Attempt, Error> {
        let reference = commit.reference();
        let tip = self.tip(&self.repository()?, &reference)?;
        if let Some(tip) = tip {
            let refspecs = [format!("+{reference}:{}", mirror_ref(&reference))];
            self.deepen(&refspecs, |repo| lacks_commits(repo, tip, commit))?;
        }
        let repo = self.repository()?;
        self.check_last(&repo, tip, commit)?;
        if let Some(tip) = tip
            && self.is_full(&repo, tip, commit).map_err(|e| Error::cache(&e))?
        {
            let archive = report_history::archive(&commit.branch, tip);
            match self.try_commit(&repo, Some(tip), commit, Some(&archive)) {
                // If the server forbids the archive or the restart, the branch gets one more commit.
                Err(Error::PushRejected { .. }) => {}
                begun => return begun,
            }
        }
        self.try_commit(&repo, tip, commit, None)
    }

    /// Creates and pushes a commit. With an archive of the tip, the commit has no parents.
    fn try_commit(
        &self,
        repo: &Repository,
        tip: Option<Oid>,
        commit: &Commit,
        archive: Option<&str>,
    ) -> Result<Attempt, Error> {
        let id = match write_commit(repo, tip, commit, archive).map_err(|e| Error::cache(&e))? {
            Written::Unsigned(error) => return Err(error),
            Written::Unchanged => return Ok(Attempt::Unchanged),
            Written::NotOurs(what) => return Err(self.not_ours(commit, what)),
            Written::Fenced(writer) => return Err(self.fenced(commit, &writer)),
            Written::Commit(id) => id,
        };
        if let (Some(archive), Some(tip)) = (archive, tip) {
            let answer = self.send(repo, archive, None, tip)?;
            if !matches!(answer, PushAnswer::Accepted) && self.remote_tip(repo, archive)? != Some(tip) {
                return Err(self.rejected(&commit.branch, "no archive"));
            }
        }
        self.send_commit(repo, &commit.reference(), tip, id)
    }

    /// Sends a commit, and finds out whether the reference then points to it.
    pub(super) fn send_commit(
        &self,
        repo: &Repository,
        reference: &str,
        tip: Option<Oid>,
        id: Oid,
    ) -> Result<Attempt, Error> {
        match self.send(repo, reference, tip, id)? {
            PushAnswer::Accepted => Ok(Attempt::Pushed(id)),
            PushAnswer::Stale => Ok(Attempt::Stale(id)),
            // The server's reference shows whether the push succeeded; the message text does not.
            PushAnswer::Rejected(reason) => match self.remote_tip(repo, reference)? {
                now if now == Some(id) => Ok(Attempt::Pushed(id)),
                now if now == tip => {
                    let branch = reference.strip_prefix("refs/heads/").unwrap_or(reference);
                    Err(self.rejected(branch, &reason))
                }
                _ => Ok(Attempt::Stale(id)),
            },
            PushAnswer::Unknown(error) => match self.remote_tip(repo, reference) {
                Ok(now) if now == Some(id) => Ok(Attempt::Pushed(id)),
                Ok(now) if now != tip => Ok(Attempt::Stale(id)),
                Ok(_) | Err(_) => Err(error),
            },
        }
    }

    fn rejected(&self, branch: &str, reason: &str) -> Error {
        Error::PushRejected {
            url: self.remote().to_string(),
            branch: branch.to_owned(),
            reason: text::plain(reason, 300),
        }
    }

    fn not_ours(&self, commit: &Commit, what: String) -> Error {
        Error::NotOurs { url: self.remote().to_string(), branch: commit.branch.clone(), what }
    }

    fn fenced(&self, commit: &Commit, writer: &str) -> Error {
        Error::Fenced {
            url: self.remote().to_string(),
            branch: commit.branch.clone(),
            writer: text::plain(writer, 60),
        }
    }

    fn remote_tip(&self, repo: &Repository, reference: &str) -> Result<Option<Oid>, Error> {
        let advertised = self.advertised(repo, Direction::Push)?;
        Ok(advertised.into_iter().find(|(name, _)| name == reference).map(|(_, id)| id))
    }

    /// Returns the tip of a branch, and ensures that the mirror has its objects.
    pub(super) fn tip(&self, repo: &Repository, reference: &str) -> Result<Option<Oid>, Error> {
        let advertised = self.advertised(repo, Direction::Push)?;
        let tip = match advertised.iter().find(|(name, _)| name == reference).map(|(_, id)| *id) {
            Some(tip) if repo.find_commit(tip).is_err() => {
                let mirrored = mirror_ref(reference);
                self.download(repo, &[format!("+{reference}:{mirrored}")], 1)?;
                Some(repo.refname_to_id(&mirrored).map_err(|e| Error::cache(&e))?)
            }
            known => known,
        };
        refuse_deep(repo, advertised.into_iter().map(|(_, id)| id).chain(tip), &self.bounds())?;
        Ok(tip)
    }

    fn send(
        &self,
        repo: &Repository,
        reference: &str,
        tip: Option<Oid>,
        commit: Oid,
    ) -> Result<PushAnswer, Error> {
        let session = self.push_session(reference, tip.into_iter().chain([commit]))?;
        // Declared before the callbacks that borrow them, so that they are dropped later.
        let (stale, refused, message) = (Cell::new(false), RefCell::new(None), RefCell::new(String::new()));
        let mut callbacks = self.callbacks();
        callbacks.push_negotiation(|updates| {
            let expected = tip.unwrap_or(Oid::ZERO_SHA1);
            if updates.iter().all(|update| update.src() == expected) {
                return Ok(());
            }
            stale.set(true);
            Err(git2::Error::from_str("the branch moved"))
        });
        callbacks.push_update_reference(|_, status| {
            *refused.borrow_mut() = status.map(str::to_owned);
            Ok(())
        });
        callbacks.sideband_progress(|bytes| {
            if message.borrow().len() < 4096 {
                message.borrow_mut().push_str(&String::from_utf8_lossy(bytes));
            }
            !self.cancel.is_cancelled()
        });
        let outbox = format!("{}-outbox", mirror_ref(reference));
        let mut options = PushOptions::new();
        options.remote_callbacks(callbacks).follow_redirects(RemoteRedirect::None);
        let result = session.scope(|| {
            repo.reference(&outbox, commit, true, "wheelwright: report")?;
            let mut remote = repo.remote_anonymous(self.remote().url())?;
            // Only a commit that restarts the branch does not follow the tip.
            let begins = tip.is_some() && repo.find_commit(commit)?.parent_count() == 0;
            let force = if begins { "+" } else { "" };
            remote.push(&[format!("{force}{outbox}:{reference}")], Some(&mut options))
        });
        drop(options);
        let message = session.hide(&message.into_inner());
        Ok(match (result, refused.into_inner().map(|status| session.hide(&status))) {
            _ if stale.get() => PushAnswer::Stale,
            (Ok(()), None) => PushAnswer::Accepted,
            (Ok(()), Some(status)) => PushAnswer::Rejected(with_message(&status, &message)),
            (Err(e), _) if e.code() == ErrorCode::NotFastForward => PushAnswer::Stale,
            (Err(e), _) => match session.unpack_failure() {
                Some(reason) => PushAnswer::Rejected(with_message(&format!("unpack {reason}"), &message)),
                None => PushAnswer::Unknown(match session.explain(&e) {
                    Error::Unreachable { url, reason } => {
                        Error::Unreachable { url, reason: text::plain(&with_message(&reason, &message), 300) }
                    }
                    other => other,
                }),
            },
        })
    }
}

/// Appends the output of a server to the reason.
fn with_message(reason: &str, message: &str) -> String {
    if message.is_empty() { reason.to_owned() } else { format!("{reason}: {message}") }
}

/// Returns true if the checks of a push may need commits that the mirror lacks: the reports at the tip, which
/// are counted, and the commits since the last push.
fn lacks_commits(repo: &Repository, tip: Oid, commit: &Commit) -> Result<bool, git2::Error> {
    let boundary = Boundary::read(repo);
    if boundary.is_empty() {
        return Ok(false);
    }
    if boundary.cuts_reports(repo, tip)? {
        return Ok(true);
    }
    match Oid::from_str(&commit.last.commit) {
        Ok(last) if !commit.last.adopts && last != tip => {
            Ok(!repo.graph_descendant_of(tip, last).unwrap_or(false) && boundary.cuts(repo, tip, last)?)
        }
        Ok(_) | Err(_) => Ok(false),
    }
}

/// Returns the commit of a reference of a local repository.
pub(super) fn local_tip(repo: &Repository, reference: &str) -> Result<Option<Oid>, git2::Error> {
    match repo.refname_to_id(reference) {
        Ok(tip) => Ok(Some(tip)),
        Err(e) if e.code() == ErrorCode::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Moves a reference of a local repository from its tip to a commit. Without a tip, it creates the reference.
///
/// To create it, it compares the reference with the zero id: libgit2 compares under the reference's lock, but
/// checks for an existing reference before it locks, so two writers could both succeed.
pub(super) fn swap(
    repo: &Repository,
    reference: &str,
    tip: Option<Oid>,
    commit: Oid,
) -> Result<Attempt, git2::Error> {
    let expected = tip.unwrap_or(Oid::ZERO_SHA1);
    let moved = repo.reference_matching(reference, commit, true, expected, "wheelwright: report");
    swapped(moved, commit)
}

/// Converts the result of changing a reference of a local repository.
fn swapped(moved: Result<git2::Reference<'_>, git2::Error>, commit: Oid) -> Result<Attempt, git2::Error> {
    match moved.map_err(|e| (e.code(), e)) {
        Ok(_) => Ok(Attempt::Pushed(commit)),
        Err((ErrorCode::Modified | ErrorCode::Locked | ErrorCode::Exists | ErrorCode::NotFound, _)) => {
            Ok(Attempt::Stale(commit))
        }
        Err((_, e)) => Err(e),
    }
}

/// The response of a server to a push.
enum PushAnswer {
    /// The server moved the branch.
    Accepted,
    /// The branch was not at the expected commit.
    Stale,
    /// The server read the commit but did not move the branch.
    Rejected(String),
    /// The connection ended without a response.
    Unknown(Error),
}
