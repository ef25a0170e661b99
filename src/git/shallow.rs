//! Fetches no more of a history than the checks of a commit read.
//!
//! A first fetch brings one commit. If a check needs older ones, each further fetch deepens the history, and
//! what it brought stays if a later one is interrupted. The file `shallow` of a mirror lists the commits whose
//! parents it lacks (gitrepository-layout(5)); libgit2 reads these as commits without parents.

use std::collections::BTreeSet;
use std::path::PathBuf;

use git2::{ErrorClass, Oid, Repository};

use super::report_history::is_report;
use super::{Error, Mirror};

/// The whole history, as git asks for it.
pub(super) const WHOLE: i32 = i32::MAX;

/// Number of commits that a fetch asks for, from the tip, and each further one until the checks have what they
/// need. A mirror that has the accepted commit needs the second only after more than one new commit.
const DEPTHS: [i32; 5] = [16, 128, 1_024, 8_192, WHOLE];

/// The commits whose parents a mirror lacks.
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

    /// Returns true if commits may be missing that lead to `tip` and not to `base`.
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

    /// Returns true if the reports at the tip of a branch may go on below the boundary.
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

/// Takes the commits off the boundary whose parents are in the repository: a commit that follows the one before
/// arrives without the history of that one.
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

/// Returns the parents that a commit names, whether the repository has them or not.
fn parents(raw: &[u8]) -> Vec<Oid> {
    let head = raw.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
    let named = head.filter_map(|line| line.strip_prefix(b"parent "));
    named.filter_map(|id| Oid::from_str(std::str::from_utf8(id).ok()?).ok()).collect()
}

fn file(repo: &Repository) -> PathBuf {
    repo.path().join("shallow")
}

impl Mirror {
    /// Deepens the history of references while a check lacks commits. The check gets the repository as it is
    /// after each fetch.
    ///
    /// # Errors
    /// As for [`Mirror::fetch`]. A mirror that cannot be read is created again.
    pub(super) fn deepen(
        &self,
        refspecs: &[String],
        lacks_commits: impl Fn(&Repository) -> Result<bool, git2::Error>,
    ) -> Result<(), Error> {
        for depth in DEPTHS {
            // An open repository keeps the parents of commits as they were.
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

    /// Fetches below the boundary. JGit sends the commits of the boundary twice then, and libgit2 refuses such
    /// a pack. A first fetch has no boundary, so an empty mirror gets the same depth.
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
