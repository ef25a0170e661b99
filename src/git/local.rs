//! Revisions of a repository on this machine, read in place.

use std::path::Path;
use std::sync::Arc;

use git2::{Object, ObjectType, Oid, Repository};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::mirror::{is_sha256, mirror_ref};
use super::read::{Blobs, Bounds, read};
use super::rewind::guard;
use super::signature::{self, RefTarget};
use super::{Error, History, RefSpec, TreeLimits, Verification};
use object::tree::Checkout;

/// Returns the URLs of a repository's remotes; none if the repository cannot be read.
pub fn remote_urls(path: &Path) -> Vec<String> {
    let Ok(repo) = Repository::open(path) else { return Vec::new() };
    let names = repo.remotes().ok();
    let names = names.iter().flatten().filter_map(|name| name.ok().flatten());
    names.filter_map(|name| Some(repo.find_remote(name).ok()?.url().ok()?.to_owned())).collect()
}

/// Reads a revision of a repository on this machine: a branch, a tag, a remote's branch, or any revision that
/// `git rev-parse` accepts.
///
/// # Errors
/// Fails if the repository cannot be read, it has no such revision, or the revision exceeds [`TreeLimits`].
pub fn checkout(path: &Path, revision: &str) -> Result<Arc<Checkout>, Error> {
    let (url, cancel, limits) = (path.to_string_lossy(), CancellationToken::new(), TreeLimits::default());
    if is_sha256(path) {
        return Err(Error::sha256(&url));
    }
    let missing = || Error::MissingRef {
        what: format!("revision {revision}"),
        url: url.clone().into_owned(),
        known: String::new(),
    };
    let repo = Repository::open(path).map_err(|e| Error::remote(&url, &e))?;
    let object = find(&repo, revision).ok_or_else(missing)?;
    let commit = object.peel(ObjectType::Commit).map_err(|_| missing())?.id();
    let bounds = Bounds { limits: &limits, cancel: &cancel, url: &url };
    let tree = read(&repo, commit, &bounds, &mut Blobs::new())?;
    Ok(Arc::new(Checkout { revision: commit.to_string(), tree }))
}

/// Verifies the signatures of a commit that was read as a revision of a repository or its mirror. Fetches
/// nothing. Ignores a tag that now points to another commit.
///
/// # Errors
/// Fails if the repository cannot be read. Returns [`Error::NotVerified`] if a signature is missing or untrusted.
pub fn verify_commit(
    path: &Path,
    revision: &str,
    checkout: &Checkout,
    how: &Verification,
) -> Result<(), Error> {
    let repo = Repository::open(path).map_err(|e| Error::remote(&path.to_string_lossy(), &e))?;
    let commit = Oid::from_str(&checkout.revision).map_err(|e| Error::Ref(e.message().to_owned()))?;
    let leads = |object: &Object<'_>| object.peel(ObjectType::Commit).is_ok_and(|found| found.id() == commit);
    let object = find(&repo, revision).filter(leads);
    let tag = object.as_ref().and_then(|object| object.as_tag());
    let tag = tag.map(|tag| (tag.id(), revision.to_owned()));
    let cancel = CancellationToken::new();
    signature::verify(&repo, &RefTarget { commit, tag }, how.accepted.as_deref(), how, &cancel)
}

/// Rejects a commit that does not descend from the accepted one, like a fetch does. A shallow clone lacks older
/// commits, so it is not checked.
///
/// # Errors
/// Fails if the repository cannot be read. Returns [`Error::Rewound`] if the commit does not descend from the
/// accepted one.
pub fn check_rewind(path: &Path, want: &RefSpec, commit: &str, history: History<'_>) -> Result<(), Error> {
    let repo = Repository::open(path).map_err(|e| Error::remote(&path.to_string_lossy(), &e))?;
    let commit = Oid::from_str(commit).map_err(|e| Error::Ref(e.message().to_owned()))?;
    if repo.is_shallow() { Ok(()) } else { guard(&repo, want, commit, history) }
}

/// The maximum number of commits to search for changes.
const MAX_SEARCHED: usize = 10_000;

/// A commit that changed a file or a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathChange {
    /// The id of the commit.
    pub commit: String,
    /// Its time.
    pub time: Timestamp,
}

/// Returns the commits that changed a file or a directory, newest first, from a commit back along the first parents, up
/// to `max`. If no commit within the searched ones did, returns the oldest of these.
///
/// # Errors
/// Fails if the repository cannot be read.
pub fn changes(path: &Path, commit: &str, of: &str, max: usize) -> Result<Vec<PathChange>, Error> {
    let explain = |e: git2::Error| Error::remote(&path.to_string_lossy(), &e);
    let repo = Repository::open(path).map_err(explain)?;
    let content = |commit: &git2::Commit<'_>| -> Option<Oid> {
        let tree = commit.tree().ok()?;
        if of.is_empty() { Some(tree.id()) } else { Some(tree.get_path(of.as_ref()).ok()?.id()) }
    };
    let change = |commit: &git2::Commit<'_>| PathChange {
        commit: commit.id().to_string(),
        time: Timestamp::from_second(commit.time().seconds()).unwrap_or_default(),
    };
    let mut commit = Oid::from_str(commit).and_then(|id| repo.find_commit(id)).map_err(explain)?;
    let (mut new, mut changes) = (content(&commit), Vec::new());
    for _ in 0..MAX_SEARCHED {
        let parent = commit.parent(0).ok();
        let old = parent.as_ref().map(&content);
        if old != Some(new) {
            changes.push(change(&commit));
        }
        match (parent, old) {
            (Some(parent), Some(old)) if changes.len() < max => (commit, new) = (parent, old),
            _ => break,
        }
    }
    if changes.is_empty() {
        changes.push(change(&commit));
    }
    Ok(changes)
}

/// The maximum size of a file to read.
const MAX_FILE: usize = 4 << 20;

/// Returns the content of a file in a commit; `None` if the commit has no such file.
///
/// # Errors
/// Fails if the repository cannot be read, or the file has more than [`MAX_FILE`] bytes.
pub fn file(path: &Path, commit: &str, file: &str) -> Result<Option<Vec<u8>>, Error> {
    let explain = |e: git2::Error| Error::remote(&path.to_string_lossy(), &e);
    let repo = Repository::open(path).map_err(explain)?;
    let commit = Oid::from_str(commit).and_then(|id| repo.find_commit(id)).map_err(explain)?;
    let Ok(entry) = commit.tree().and_then(|tree| tree.get_path(file.as_ref())) else { return Ok(None) };
    let (size, _) = repo.odb().and_then(|odb| odb.read_header(entry.id())).map_err(explain)?;
    if size > MAX_FILE {
        return Err(Error::Content(format!("{file} has {size} bytes, at most {MAX_FILE} are read")));
    }
    Ok(Some(repo.find_blob(entry.id()).map_err(explain)?.content().to_vec()))
}

/// Finds a revision. A clone of a pull request only has remote-tracking branches, and a mirror keeps fetched
/// references under other names.
fn find<'r>(repo: &'r Repository, revision: &str) -> Option<Object<'r>> {
    let reference = |name: String| repo.find_object(repo.refname_to_id(&name).ok()?, None).ok();
    let remotes = repo.remotes().ok()?;
    let of_remotes: Vec<_> = remotes
        .iter()
        .filter_map(|remote| remote.ok().flatten())
        .filter_map(|remote| reference(format!("refs/remotes/{remote}/{revision}")))
        .collect();
    let of_remote = || match &of_remotes[..] {
        [only] => Some(only.clone()),
        _ => None,
    };
    let named = |kind: &str| {
        let name = format!("refs/{kind}/{revision}");
        reference(mirror_ref(&name)).or_else(|| reference(name))
    };
    named("heads")
        .or_else(|| named("tags"))
        .or_else(|| repo.revparse_single(revision).ok())
        .or_else(of_remote)
}
