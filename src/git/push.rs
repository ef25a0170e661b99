//! Commits from files in memory, pushed with compare-and-swap.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::time::Duration;

use git2::{
    Direction, ErrorCode, Index, IndexEntry, IndexTime, Oid, PushOptions, RemoteRedirect, Repository,
    Signature,
};

use super::{Error, Mirror};
use object::text;
use reconcile::Push;

const AUTHOR: &str = "Wheelwright";
const EMAIL: &str = "wheelwright@gitops.wheelwright.dev";

/// How often a push that lost a race is made again on the new tip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Tries in all.
    pub tries: u32,
    /// Wait after the first; each further one is 1.6 times as long, give or take half.
    pub first: Duration,
    /// Longest wait.
    pub longest: Duration,
}

impl Default for Retry {
    /// Twelve tries wait for about 50 s together.
    fn default() -> Self {
        Self { tries: 12, first: Duration::from_millis(200), longest: Duration::from_secs(10) }
    }
}

impl Retry {
    /// The wait after a try, counted from 0. Commit ids are as good as random and differ between writers, so they spread them.
    fn wait(&self, attempt: u32, commit: Oid) -> Duration {
        let grown = self.first.as_secs_f64() * 1.6_f64.powi(i32::try_from(attempt).unwrap_or(i32::MAX));
        let spread = 0.5 + f64::from(commit.as_bytes().first().copied().unwrap_or_default()) / 256.0;
        Duration::try_from_secs_f64(grown * spread).unwrap_or(self.longest).min(self.longest)
    }
}

/// How one try ended.
enum Tried {
    /// The branch holds these files already.
    Unchanged,
    /// The branch is at our commit.
    Pushed(Oid),
    /// Somebody pushed in between; the commit was for nothing.
    Stale(Oid),
}

impl Mirror {
    /// Commits files on top of a branch as it is now, and pushes. Returns the commit, or `None` when the branch holds the files
    /// already. Other directories of the branch, and commits of others, stay; nothing is ever force-pushed.
    ///
    /// # Errors
    /// [`Error::PushRejected`] if the server took the connection and refused the commit, [`Error::PushContended`] if others were
    /// faster each time; else as for [`Mirror::fetch`].
    pub fn push(&self, push: &Push, retry: &Retry) -> Result<Option<String>, Error> {
        let reference = format!("refs/heads/{}", push.branch);
        if push.branch.starts_with('-') || !git2::Reference::is_valid_name(&reference) {
            return Err(Error::Ref(format!(
                "{:?} is not a valid branch name",
                text::plain(&push.branch, 60)
            )));
        }
        for attempt in 0..retry.tries {
            let tried = match self.remote().local() {
                Some(path) => self.try_local(path, &reference, push)?,
                None => self.try_remote(&reference, push)?,
            };
            match tried {
                Tried::Unchanged => return Ok(None),
                Tried::Pushed(commit) => return Ok(Some(commit.to_string())),
                Tried::Stale(_) if self.cancel.is_cancelled() => {
                    return Err(Error::Cancelled { url: self.remote().to_string() });
                }
                Tried::Stale(commit) => std::thread::sleep(retry.wait(attempt, commit)),
            }
        }
        Err(Error::PushContended {
            url: self.remote().to_string(),
            branch: push.branch.clone(),
            tries: retry.tries,
        })
    }

    /// libgit2 overwrites references of a local repository without comparing, so the commit is made in it and its reference
    /// is swapped there. Hooks of a local repository do not run.
    fn try_local(&self, path: &Path, reference: &str, push: &Push) -> Result<Tried, Error> {
        let explain = |e: git2::Error| Error::remote(self.remote().url(), &e);
        let repo = Repository::open(path).map_err(explain)?;
        let checked_out = repo
            .find_reference("HEAD")
            .is_ok_and(|head| head.symbolic_target().is_ok_and(|name| name == Some(reference)));
        if checked_out && !repo.is_bare() {
            return Err(self.rejected(push, "the branch is checked out there"));
        }
        let tip = match repo.refname_to_id(reference) {
            Ok(tip) => Some(tip),
            Err(e) if e.code() == ErrorCode::NotFound => None,
            Err(e) => return Err(explain(e)),
        };
        let Some(commit) = commit(&repo, tip, push).map_err(explain)? else { return Ok(Tried::Unchanged) };
        let swapped = match tip {
            Some(tip) => repo.reference_matching(reference, commit, true, tip, "wheelwright: report"),
            None => repo.reference(reference, commit, false, "wheelwright: report"),
        };
        match swapped.map_err(|e| (e.code(), e)) {
            Ok(_) => Ok(Tried::Pushed(commit)),
            Err((ErrorCode::Modified | ErrorCode::Locked | ErrorCode::Exists | ErrorCode::NotFound, _)) => {
                Ok(Tried::Stale(commit))
            }
            Err((_, e)) => Err(explain(e)),
        }
    }

    fn try_remote(&self, reference: &str, push: &Push) -> Result<Tried, Error> {
        let repo = self.repository()?;
        let tip = self.tip(&repo, reference)?;
        let Some(commit) = commit(&repo, tip, push).map_err(|e| Error::cache(&e))? else {
            return Ok(Tried::Unchanged);
        };
        match self.send(&repo, reference, tip, commit) {
            Sent::Taken => Ok(Tried::Pushed(commit)),
            Sent::Stale => Ok(Tried::Stale(commit)),
            // What the server did is read from its reference, never from the words of a message.
            Sent::Refused(why) => match self.remote_tip(&repo, reference)? {
                now if now == Some(commit) => Ok(Tried::Pushed(commit)),
                now if now == tip => Err(self.rejected(push, &why)),
                _ => Ok(Tried::Stale(commit)),
            },
            Sent::Unknown(error) => match self.remote_tip(&repo, reference) {
                Ok(now) if now == Some(commit) => Ok(Tried::Pushed(commit)),
                Ok(now) if now != tip => Ok(Tried::Stale(commit)),
                Ok(_) | Err(_) => Err(error),
            },
        }
    }

    fn rejected(&self, push: &Push, why: &str) -> Error {
        Error::PushRejected {
            url: self.remote().to_string(),
            branch: push.branch.clone(),
            why: text::plain(why, 300),
        }
    }

    fn remote_tip(&self, repo: &Repository, reference: &str) -> Result<Option<Oid>, Error> {
        let advertised = self.advertised(repo, Direction::Push)?;
        Ok(advertised.into_iter().find(|(name, _)| name == reference).map(|(_, id)| id))
    }

    /// The tip of a branch, with its objects in the mirror.
    fn tip(&self, repo: &Repository, reference: &str) -> Result<Option<Oid>, Error> {
        let Some(tip) = self.remote_tip(repo, reference)? else { return Ok(None) };
        if repo.find_commit(tip).is_ok() {
            return Ok(Some(tip));
        }
        let kept = reference.replacen("refs/", "refs/wheelwright/", 1);
        self.download(repo, &[format!("+{reference}:{kept}")])?;
        repo.refname_to_id(&kept).map(Some).map_err(|e| Error::cache(&e))
    }

    fn send(&self, repo: &Repository, reference: &str, tip: Option<Oid>, commit: Oid) -> Sent {
        // Before the callbacks, so that they outlive them.
        let (stale, refused, said) = (Cell::new(false), RefCell::new(None), RefCell::new(String::new()));
        let (mut callbacks, refusal) = self.credentials().callbacks(self.remote(), &self.cancel);
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
            if said.borrow().len() < 4096 {
                said.borrow_mut().push_str(&String::from_utf8_lossy(bytes));
            }
            !self.cancel.is_cancelled()
        });
        let outbox = reference.replacen("refs/heads/", "refs/wheelwright/outbox/", 1);
        let mut options = PushOptions::new();
        options.remote_callbacks(callbacks).follow_redirects(RemoteRedirect::None);
        let result = repo
            .reference(&outbox, commit, true, "wheelwright: report")
            .and_then(|_| repo.remote_anonymous(self.remote().url()))
            .and_then(|mut remote| remote.push(&[format!("{outbox}:{reference}")], Some(&mut options)));
        drop(options);
        let said = said.into_inner();
        match (result, refused.into_inner()) {
            _ if stale.get() => Sent::Stale,
            (Ok(()), None) => Sent::Taken,
            (Ok(()), Some(status)) => {
                Sent::Refused(if said.is_empty() { status } else { format!("{status}: {said}") })
            }
            (Err(e), _) if e.code() == ErrorCode::NotFastForward => Sent::Stale,
            (Err(e), _) => Sent::Unknown(refusal.explain(self.remote(), &e)),
        }
    }
}

/// What the server is known to have done with a push.
enum Sent {
    /// It moved the branch.
    Taken,
    /// The branch was not where we thought.
    Stale,
    /// It read the commit and did not move the branch.
    Refused(String),
    /// The connection ended without an answer.
    Unknown(Error),
}

/// Makes the commit that puts the files on top of a tip; `None` when the tip holds them already.
fn commit(repo: &Repository, tip: Option<Oid>, push: &Push) -> Result<Option<Oid>, git2::Error> {
    let parent = tip.map(|tip| repo.find_commit(tip)).transpose()?;
    let mut index = Index::new()?;
    if let Some(parent) = &parent {
        index.read_tree(&parent.tree()?)?;
    }
    match push.directory.as_str() {
        "" => index.clear()?,
        directory => index.remove_dir(Path::new(directory), 0)?,
    }
    for (path, content) in &push.files {
        let path =
            if push.directory.is_empty() { path.clone() } else { format!("{}/{path}", push.directory) };
        index.add(&entry(path, repo.blob(content.as_bytes())?))?;
    }
    let tree = repo.find_tree(index.write_tree_to(repo)?)?;
    if parent.as_ref().is_some_and(|parent| parent.tree_id() == tree.id()) {
        return Ok(None);
    }
    let signature = Signature::new(AUTHOR, EMAIL, &git2::Time::new(push.time.as_second(), 0))?;
    let parents: Vec<_> = parent.iter().collect();
    repo.commit(None, &signature, &signature, &push.message, &tree, &parents).map(Some)
}

/// An entry of an index that never meets a work tree, so the fields about files on disk stay zero.
pub fn entry(path: String, id: Oid) -> IndexEntry {
    let never = IndexTime::new(0, 0);
    IndexEntry {
        ctime: never,
        mtime: never,
        dev: 0,
        ino: 0,
        mode: 0o100_644,
        uid: 0,
        gid: 0,
        file_size: 0,
        id,
        flags: 0,
        flags_extended: 0,
        path: path.into_bytes(),
    }
}

#[cfg(test)]
mod tests;
