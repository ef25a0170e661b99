//! Fetches no more of a history than the checks of a commit need.
//!
//! The first fetch gets one commit. If a check needs older commits, each further fetch deepens the history, and
//! keeps its result even if a later one is interrupted. The file `shallow` in a mirror lists the commits whose
//! parents are missing (gitrepository-layout(5)). libgit2 treats these as commits without parents.

use std::collections::BTreeSet;
use std::path::PathBuf;

use git2::{ErrorClass, Oid, Repository};

use super::report_history::is_report;
use super::{Error, Mirror};

/// The whole history, in git's notation.
pub(super) const WHOLE: i32 = i32::MAX;

/// The depths of the fetches after the first one, until the checks have what they need. A mirror that has the
/// accepted commit only needs a second fetch if there is more than one new commit.
const DEPTHS: [i32; 5] = [16, 128, 1_024, 8_192, WHOLE];

/// The commits whose parents are missing in a mirror.
pub(super) struct Boundary(BTreeSet<Oid>);

impl Boundary {
    pub(super) fn read(repo: &Repository) -> Self {
        let text = std::fs::read_to_string(file(repo)).unwrap_or_default();
        Self(text.lines().filter_map(|line| Oid::from_str(line).ok()).collect())
    }

    pub(super) fn contains(&self, commit: Oid) -> bool {
        self.0.contains(&commit)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if the mirror may lack ancestors of `tip` that are not ancestors of `base`.
    pub(super) fn cuts(&self, repo: &Repository, tip: Oid, base: Oid) -> Result<bool, git2::Error> {
        let mut walk = repo.revwalk()?;
        walk.push(tip)?;
        if repo.find_commit(base).is_ok() {
            walk.hide(base)?;
        }
        for commit in walk {
            if self.contains(commit?) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if the reports at the tip of a branch may continue below the boundary.
    pub(super) fn cuts_reports(&self, repo: &Repository, tip: Oid) -> Result<bool, git2::Error> {
        let mut commit = repo.find_commit(tip)?;
        while is_report(&commit) {
            if self.contains(commit.id()) {
                return Ok(true);
            }
            let Ok(parent) = commit.parent(0) else { break };
            commit = parent;
        }
        Ok(false)
    }
}

/// Removes commits from the boundary whose parents are in the repository: a fetched child of an existing commit
/// arrives without further history.
pub(super) fn close(repo: &Repository) -> Result<(), Error> {
    let Boundary(roots) = Boundary::read(repo);
    let odb = repo.odb().map_err(|e| Error::cache(&e))?;
    let has_parents = |commit: &Oid| {
        odb.read(*commit).is_ok_and(|raw| parents(raw.data()).iter().all(|parent| odb.exists(*parent)))
    };
    let left: String =
        roots.iter().filter(|commit| !has_parents(commit)).map(|commit| format!("{commit}\n")).collect();
    let path = file(repo);
    let written = match left.as_str() {
        "" if path.exists() => std::fs::remove_file(&path),
        "" => Ok(()),
        left => std::fs::write(&path, left),
    };
    written.map_err(|e| Error::Cache(format!("{}: {e}", path.display())))
}

/// Returns the parents of a commit, including missing ones.
fn parents(raw: &[u8]) -> Vec<Oid> {
    let head = raw.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
    let named = head.filter_map(|line| line.strip_prefix(b"parent "));
    named.filter_map(|id| Oid::from_str(std::str::from_utf8(id).ok()?).ok()).collect()
}

fn file(repo: &Repository) -> PathBuf {
    repo.path().join("shallow")
}

impl Mirror {
    /// Deepens the history of references while a check lacks commits. The check gets the freshly opened
    /// repository after each fetch.
    ///
    /// # Errors
    /// See [`Mirror::fetch`]. Recreates a mirror that cannot be read.
    pub(super) fn deepen(
        &self,
        refspecs: &[String],
        lacks_commits: impl Fn(&Repository) -> Result<bool, git2::Error>,
    ) -> Result<(), Error> {
        for depth in DEPTHS {
            // An open repository caches the parents of commits.
            let repo = self.repository()?;
            match lacks_commits(&repo) {
                Ok(false) => return Ok(()),
                Ok(true) => self.download_deeper(&repo, refspecs, depth)?,
                Err(error) => {
                    self.create_again()?;
                    return Err(Error::cache(&error));
                }
            }
        }
        Ok(())
    }

    /// Fetches below the boundary. JGit sends the commits of the boundary twice, and libgit2 rejects such a
    /// pack. A first fetch has no boundary, so the retry fetches the same depth into an empty mirror.
    fn download_deeper(&self, repo: &Repository, refspecs: &[String], depth: i32) -> Result<(), Error> {
        let session = self.session()?;
        match self.download_in(&session, repo, refspecs, depth) {
            Ok(()) => close(repo),
            Err(error)
                if error.class() == ErrorClass::Indexer && repo.is_shallow() && !session.has_failed() =>
            {
                self.create_again()?;
                self.download(&self.repository()?, refspecs, depth)
            }
            Err(error) => Err(session.explain(&error)),
        }
    }
}
