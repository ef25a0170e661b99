//! The bare repository in the cache that mirrors a remote, and fetching into it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use git2::{
    AutotagOption, Direction, ErrorClass, ErrorCode, FetchOptions, Oid, RemoteCallbacks, RemoteRedirect,
    Repository,
};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::read::{self, Blobs, Bounds, TreeLimits};
use super::refs::{RefSpec, Target};
use super::report_commits::below_reports;
use super::report_history::Counted;
use super::rewind::{History, guard, guard_step, history_refused, is_allowed};
use super::shallow::{self, Boundary, WHOLE};
use super::signature::{self, RefTarget, SignedPart, Verification};
use super::transport::{PushedReference, Session, SessionLimits};
use super::{Arrivals, Credentials, Egress, Error, Remote, TransportLimits, process};
use object::tree::Checkout;

/// The maximum number of pack files in a mirror. Each fetch adds a pack with its index, and libgit2 never
/// repacks, so a mirror with more files is recreated.
const MAX_PACK_FILES: usize = 2_000;

/// The maximum number of loose objects in a mirror. The report of a fleet in trouble adds hundreds of them.
const MAX_LOOSE_OBJECTS: usize = 20_000;

/// The maximum size of a mirror's object database: twice the largest pack.
const MAX_MIRROR_BYTES: u64 = 4 << 30;

/// The references that a remote advertises, by name.
type Advertised = Vec<(String, Oid)>;

/// A bare repository with the objects fetched from a remote. Processes do not share it.
#[derive(Debug)]
pub struct Mirror {
    pub(super) dir: PathBuf,
    remote: Remote,
    credentials: Credentials,
    /// Limits on the commits to read.
    pub limits: TreeLimits,
    /// Limits on connections.
    pub transport: TransportLimits,
    /// The addresses that connections may be opened to.
    pub egress: Egress,
    /// Limits the bytes in flight from all servers.
    pub(crate) arrivals: Arc<Arrivals>,
    /// Cancels the current operation.
    pub cancel: CancellationToken,
    /// The required signatures of commits, if any.
    pub verification: Option<Verification>,
    /// True if a fetch of a branch skips the reports at its tip.
    pub leaves_out_reports: bool,
    /// True if fetches download the whole history, for commands that read older commits.
    pub keeps_whole_history: bool,
    blobs: Blobs,
    checkouts: BTreeMap<Oid, Weak<Checkout>>,
    /// The verified commits, with the digests of the keys.
    verified: BTreeSet<(String, Oid)>,
    /// Keyed by the branch of reports.
    pub(super) counted: RefCell<BTreeMap<String, Counted>>,
}

impl Mirror {
    /// Opens the mirror of a remote in a cache directory. Creates it if it is missing or broken.
    ///
    /// # Errors
    /// Returns [`Error::Credentials`] if the credentials are incomplete for the remote, [`Error::Cache`] if the
    /// directory is not writable.
    pub fn open(cache: &Path, remote: Remote, credentials: Credentials) -> Result<Self, Error> {
        process::set_up();
        credentials.check(&remote)?;
        let dir = Self::directory(cache, &remote);
        if Repository::open(&dir).is_err() || is_too_large(&dir) {
            create(&dir)?;
        }
        let (blobs, checkouts) = (Blobs::new(), BTreeMap::new());
        Ok(Self {
            dir,
            remote,
            credentials,
            limits: TreeLimits::default(),
            transport: TransportLimits::default(),
            egress: Egress::default(),
            arrivals: Arc::default(),
            cancel: CancellationToken::default(),
            verification: None,
            leaves_out_reports: false,
            keeps_whole_history: false,
            blobs,
            checkouts,
            verified: BTreeSet::new(),
            counted: RefCell::default(),
        })
    }

    /// Returns the directory of a remote's mirror in a cache directory.
    pub(crate) fn directory(cache: &Path, remote: &Remote) -> PathBuf {
        let digest = Sha256::digest(remote.identity());
        cache.join(format!("{}.git", object::hex(digest.get(..10).unwrap_or_default())))
    }

    /// Replaces the credentials.
    ///
    /// # Errors
    /// Returns [`Error::Credentials`] if the credentials are incomplete for the remote.
    pub fn set_credentials(&mut self, mut credentials: Credentials) -> Result<(), Error> {
        credentials.check(&self.remote)?;
        credentials.keep_token_of(&self.credentials);
        self.credentials = credentials;
        Ok(())
    }

    /// Returns the remote.
    pub fn remote(&self) -> &Remote {
        &self.remote
    }

    /// Starts the session for one fetch or push.
    pub(super) fn session(&self) -> Result<Arc<Session>, Error> {
        let (transport, egress) = (self.transport, self.egress.clone());
        let limits = SessionLimits { transport, egress, arrivals: &self.arrivals };
        Session::new(self.remote.clone(), self.credentials.clone(), limits, self.cancel.clone())
    }

    /// Starts the session for a push to a reference. Of the commits that the server advertises, libgit2 only
    /// sees the checked ones.
    pub(super) fn push_session(
        &self,
        reference: &str,
        checked: impl Iterator<Item = Oid>,
    ) -> Result<Arc<Session>, Error> {
        let session = self.session()?;
        let checked = checked.map(|id| id.to_string()).collect();
        session.pushes(PushedReference { name: reference.to_owned(), checked });
        Ok(session)
    }

    /// Returns callbacks that end a canceled operation between two packets, even for a local repository.
    pub(super) fn callbacks(&self) -> RemoteCallbacks<'_> {
        let mut callbacks = RemoteCallbacks::new();
        callbacks.transfer_progress(|_| !self.cancel.is_cancelled());
        callbacks.sideband_progress(|_| !self.cancel.is_cancelled());
        callbacks
    }

    pub(super) fn repository(&self) -> Result<Repository, Error> {
        // `open_bare` does not load the shallow boundary.
        Repository::open(&self.dir).map_err(|e| Error::cache(&e))
    }

    /// Fetches the commit of a reference. If the commit is unchanged, this takes one round trip and returns the
    /// same checkout.
    ///
    /// # Errors
    /// Fails if the remote is unreachable or lacks the reference, the commit does not descend from the accepted
    /// one, or it exceeds the [`TreeLimits`]. Previously fetched commits stay readable through
    /// [`Mirror::checkout`].
    pub fn fetch(&mut self, want: &RefSpec, history: History<'_>) -> Result<Arc<Checkout>, Error> {
        let fetched = self.try_fetch(want, history);
        self.keep_small()?;
        fetched
    }

    fn try_fetch(&mut self, want: &RefSpec, history: History<'_>) -> Result<Arc<Checkout>, Error> {
        if let Some(path) = self.remote.local() {
            if is_sha256(path) {
                return Err(Error::sha256(self.remote.url()));
            }
            if !is_repository(path) {
                let reason = "this path has no git repository".into();
                return Err(Error::Unreachable { url: self.remote.url().to_owned(), reason });
            }
        }
        let mut subject = match want {
            RefSpec::Commit(id) => RefTarget { commit: self.fetch_commit(want, id, history)?, tag: None },
            RefSpec::Head | RefSpec::Branch(_) | RefSpec::Tag(_) | RefSpec::Semver(_) => {
                self.fetch_ref(want, history)?
            }
        };
        let repo = self.repository()?;
        if self.follows_below_reports(want) {
            let commit = below_reports(&repo, subject.commit, history.accepted, &self.cancel);
            subject = RefTarget { commit: commit.map_err(|e| Error::cache(&e))?, tag: None };
        }
        if want.guards_history() {
            guard(&repo, want, subject.commit, history)?;
        }
        if let Some(how) = &self.verification {
            signature::verify(&repo, &subject, how.accepted.as_deref(), how, &self.cancel)?;
            self.verified.insert((how.keys.digest().to_owned(), subject.commit));
        }
        self.read(&repo, subject.commit)
    }

    /// Returns the remote's current target of a reference, a commit or an annotated tag, without a download.
    /// Returns `None` for a commit, because remotes do not list commits.
    ///
    /// # Errors
    /// Fails if the remote is unreachable, denies access, or lacks the reference.
    pub fn look_up(&self, want: &RefSpec) -> Result<Option<String>, Error> {
        let (target, _) = self.resolve(&self.repository()?, want)?;
        Ok(target.map(|target| target.id.to_string()))
    }

    /// Returns true if a previously fetched commit may still be used: it was verified with the same keys, or
    /// one of the keys signed it.
    pub fn is_trusted(&self, revision: &str) -> bool {
        let Some(how) = &self.verification else { return true };
        let (Ok(commit), Ok(repo)) = (Oid::from_str(revision), self.repository()) else { return false };
        let subject = RefTarget { commit, tag: None };
        self.verified.contains(&(how.keys.digest().to_owned(), commit))
            || signature::verify(&repo, &subject, Some(revision), how, &self.cancel).is_ok()
    }

    /// Reads a previously fetched commit; `None` if the mirror does not have it.
    ///
    /// # Errors
    /// Returns [`Error::Content`] if the commit exceeds the [`TreeLimits`].
    pub fn checkout(&mut self, revision: &str) -> Result<Option<Arc<Checkout>>, Error> {
        let repo = self.repository()?;
        match Oid::from_str(revision).and_then(|id| repo.find_commit(id)) {
            Ok(commit) => self.read(&repo, commit.id()).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// Recreates the mirror if it is too large. Checkouts stay valid, because they are in memory.
    pub(super) fn keep_small(&self) -> Result<(), Error> {
        if is_too_large(&self.dir) { create(&self.dir) } else { Ok(()) }
    }

    /// Returns the bounds for reading the mirror.
    pub(super) fn bounds(&self) -> Bounds<'_> {
        Bounds { limits: &self.limits, cancel: &self.cancel, url: self.remote.url() }
    }

    fn read(&mut self, repo: &Repository, commit: Oid) -> Result<Arc<Checkout>, Error> {
        if let Some(checkout) = self.checkouts.get(&commit).and_then(Weak::upgrade) {
            return Ok(checkout);
        }
        let bounds = Bounds { limits: &self.limits, cancel: &self.cancel, url: self.remote.url() };
        let tree = read::read(repo, commit, &bounds, &mut self.blobs)?;
        let checkout = Arc::new(Checkout { revision: commit.to_string(), tree });
        self.checkouts.retain(|_, known| known.strong_count() > 0);
        self.checkouts.insert(commit, Arc::downgrade(&checkout));
        Ok(checkout)
    }

    /// Asks the remote for the target of a reference, and for all references that it advertises.
    fn resolve(&self, repo: &Repository, want: &RefSpec) -> Result<(Option<Target>, Advertised), Error> {
        let advertised = self.advertised(repo, Direction::Fetch)?;
        if advertised.is_empty() {
            return Err(Error::Empty { url: self.remote.to_string() });
        }
        Ok((want.resolve(self.remote.url(), &advertised)?, advertised))
    }

    fn fetch_ref(&self, want: &RefSpec, history: History<'_>) -> Result<RefTarget, Error> {
        let repo = self.repository()?;
        let (target, advertised) = self.resolve(&repo, want)?;
        let Some(Target { name, id }) = target else {
            return Err(Error::Ref(format!("{want} is not a reference")));
        };
        let mirrored = mirror_ref(&name);
        let mut refspecs = vec![format!("+{name}:{mirrored}")];
        if !self.holds(&repo, id, &mirrored) {
            self.download(&repo, &refspecs, 1)?;
        }
        let found = repo.find_reference(&mirrored).map_err(|e| Error::cache(&e))?;
        let commit = found.peel(git2::ObjectType::Commit).map(|commit| commit.id());
        let commit = commit
            .map_err(|_| Error::Content(format!("{name} of {} does not point to a commit", self.remote)))?;
        // A version may be on another branch than the accepted commit. Both branches are deepened, because
        // signatures are required from their merge base on.
        let accepted = self.verification.as_ref().and_then(|how| how.accepted.as_deref());
        let of_accepted = advertised.iter().find(|(_, id)| accepted == Some(id.to_string().as_str()));
        if let Some(other) = of_accepted.map(|(other, _)| other.trim_end_matches("^{}"))
            && other != name
        {
            refspecs.push(format!("+{other}:{}", mirror_ref(other)));
        }
        let lacks_commits = |repo: &Repository| self.lacks_commits(repo, want, commit, history);
        self.deepen(&refspecs, lacks_commits)
            .map_err(|error| history_refused(error, want, commit, history))?;
        if history.accepted.is_some_and(|accepted| want.has_lost(accepted, &advertised)) {
            guard_step(want, commit, history)?;
        }
        let tag = found.target().filter(|id| *id != commit);
        let served = name.strip_prefix("refs/tags/").unwrap_or(&name).to_owned();
        Ok(RefTarget { commit, tag: tag.map(|tag| (tag, served)) })
    }

    fn fetch_commit(&self, want: &RefSpec, id: &str, history: History<'_>) -> Result<Oid, Error> {
        let repo = self.repository()?;
        let id = Oid::from_str(id).map_err(|e| Error::Ref(e.message().to_owned()))?;
        // The remote decides whether these credentials may read the commit. The mirror may have the commit because
        // of other credentials.
        self.advertised(&repo, Direction::Fetch)?;
        let lacks_commits =
            |repo: &Repository| self.lacks_commits(repo, want, id, history).map_err(|e| Error::cache(&e));
        let by_name = format!("+{id}:{}", mirror_ref(&id.to_string()));
        // A server may refuse to serve a commit by its id.
        let is_here = repo.find_commit(id).is_ok() || self.download(&repo, &[by_name], 1).is_ok();
        if !is_here || lacks_commits(&self.repository()?)? {
            // A new branch may need the name of a directory of a deleted branch.
            for stale in repo.references_glob("refs/wheelwright/all/*").map_err(|e| Error::cache(&e))? {
                stale.and_then(|mut stale| stale.delete()).map_err(|e| Error::cache(&e))?;
            }
            self.download(&repo, &all(), WHOLE)?;
        }
        repo.find_commit(id).map(|commit| commit.id()).map_err(|_| Error::MissingRef {
            what: format!("commit {id}"),
            url: self.remote.to_string(),
            known: ", or no branch or tag reaches it".into(),
        })
    }

    fn follows_below_reports(&self, want: &RefSpec) -> bool {
        self.leaves_out_reports && matches!(want, RefSpec::Head | RefSpec::Branch(_))
    }

    /// Returns true if the checks of a fetched commit may need commits that the mirror lacks: the reports at
    /// the tip, and the commits since the accepted one.
    fn lacks_commits(
        &self,
        repo: &Repository,
        want: &RefSpec,
        tip: Oid,
        history: History<'_>,
    ) -> Result<bool, git2::Error> {
        let boundary = Boundary::read(repo);
        if boundary.is_empty() {
            return Ok(false);
        }
        let mut commit = tip;
        if self.follows_below_reports(want) {
            if boundary.cuts_reports(repo, tip)? {
                return Ok(true);
            }
            commit = below_reports(repo, tip, history.accepted, &self.cancel)?;
        }
        let other = |accepted: Option<&str>| {
            accepted.and_then(|accepted| Oid::from_str(accepted).ok()).filter(|accepted| *accepted != commit)
        };
        // A tag must not move at all, even to a descendant.
        if want.guards_history()
            && !matches!(want, RefSpec::Tag(_))
            && let Some(accepted) = other(history.accepted)
            && !is_allowed(commit, history)
            && !repo.graph_descendant_of(commit, accepted).unwrap_or(false)
            && boundary.cuts(repo, commit, accepted)?
        {
            return Ok(true);
        }
        let range = self.verification.as_ref().filter(|how| how.part == SignedPart::Range);
        match range.and_then(|how| other(how.accepted.as_deref())) {
            Some(accepted) => boundary.cuts(repo, commit, accepted),
            None => Ok(false),
        }
    }

    /// Returns true if the mirror has the object and the reference keeps it, so that no fetch is needed.
    fn holds(&self, repo: &Repository, id: Oid, reference: &str) -> bool {
        repo.odb().is_ok_and(|odb| odb.exists(id))
            && repo.refname_to_id(reference).is_ok_and(|found| found == id)
    }

    /// Returns the references that the remote advertises, by name.
    pub(super) fn advertised(&self, repo: &Repository, direction: Direction) -> Result<Advertised, Error> {
        let session = self.session()?;
        let list = || -> Result<_, git2::Error> {
            let mut remote = repo.remote_anonymous(self.remote.url())?;
            let connection = remote.connect_auth(direction, Some(self.callbacks()), None)?;
            Ok(connection.list()?.iter().map(|head| (head.name().to_owned(), head.oid())).collect())
        };
        session.scope(list).map_err(|error| session.explain(&error))
    }

    /// Fetches references with their history to a depth. Local repositories, and servers that do not support
    /// shallow fetches, send the whole history.
    pub(super) fn download(&self, repo: &Repository, refspecs: &[String], depth: i32) -> Result<(), Error> {
        let session = self.session()?;
        self.download_in(&session, repo, refspecs, depth).map_err(|error| session.explain(&error))?;
        shallow::close(repo)
    }

    /// Fetches in a session.
    pub(super) fn download_in(
        &self,
        session: &Arc<Session>,
        repo: &Repository,
        refspecs: &[String],
        depth: i32,
    ) -> Result<(), git2::Error> {
        let is_whole = self.keeps_whole_history || self.remote.local().is_some();
        let depth = if is_whole || depth == WHOLE && !repo.is_shallow() { 0 } else { depth };
        let fetch = |depth| {
            let mut options = FetchOptions::new();
            options
                .remote_callbacks(self.callbacks())
                .download_tags(AutotagOption::None)
                .update_fetchhead(false)
                .depth(depth)
                .follow_redirects(RemoteRedirect::None);
            repo.remote_anonymous(self.remote.url())?.fetch(refspecs, Some(&mut options), None)
        };
        // go-git advertises shallow fetches, but answers them without a pack.
        let is_misread = |error: &git2::Error| {
            error.class() == ErrorClass::Indexer && !repo.is_shallow() && !session.has_failed()
        };
        match session.scope(|| fetch(depth)) {
            Err(error) if session.leaves_out_large_files(&error) => session.scope(|| fetch(depth)),
            Err(error) if depth > 0 && (error.code() == ErrorCode::Invalid || is_misread(&error)) => {
                session.scope(|| fetch(0))
            }
            fetched => fetched,
        }
    }

    /// Replaces this mirror with an empty one.
    pub(super) fn create_again(&self) -> Result<(), Error> {
        create(&self.dir)
    }
}

/// Returns the refspecs for all branches and tags.
fn all() -> [String; 2] {
    ["heads", "tags"].map(|kind| format!("+refs/{kind}/*:refs/wheelwright/all/{kind}/*"))
}

/// Returns the reference in the mirror for a reference of the server. Its name is flat, because a new branch
/// may have the name of a directory of a deleted branch.
pub(super) fn mirror_ref(reference: &str) -> String {
    format!("refs/wheelwright/kept/{}", object::hex(Sha256::digest(reference)))
}

/// Replaces anything in `dir` with an empty mirror.
fn create(dir: &Path) -> Result<(), Error> {
    if dir.exists() {
        std::fs::remove_dir_all(dir).map_err(|e| Error::Cache(format!("{}: {e}", dir.display())))?;
    }
    Repository::init_bare(dir).map(drop).map_err(|e| Error::cache(&e))
}

/// Returns true if the object database exceeds the limits of a mirror.
fn is_too_large(dir: &Path) -> bool {
    let ObjectFiles { packs, loose, bytes } = object_files(dir);
    packs > MAX_PACK_FILES || loose > MAX_LOOSE_OBJECTS || bytes > MAX_MIRROR_BYTES
}

/// Returns the size of a mirror's object database.
pub(crate) fn object_bytes(dir: &Path) -> u64 {
    object_files(dir).bytes
}

/// The size of a mirror's object database.
#[derive(Default)]
struct ObjectFiles {
    packs: usize,
    loose: usize,
    bytes: u64,
}

fn object_files(dir: &Path) -> ObjectFiles {
    let mut found = ObjectFiles::default();
    for folder in std::fs::read_dir(dir.join("objects")).into_iter().flatten().flatten() {
        let count = if folder.file_name() == "pack" { &mut found.packs } else { &mut found.loose };
        for file in std::fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            *count += 1;
            found.bytes += file.metadata().map_or(0, |metadata| metadata.len());
        }
    }
    found
}

/// Returns true if a directory is the root of a repository, even of one that cannot be read.
pub fn is_repository(path: &Path) -> bool {
    !Repository::open(path).is_err_and(|error| error.code() == ErrorCode::NotFound)
}

/// Returns true if a local repository uses SHA-256 object ids, which libgit2 does not support.
pub(super) fn is_sha256(path: &Path) -> bool {
    let configs = [path.join("config"), path.join(".git/config")];
    let mut formats = configs
        .iter()
        .filter_map(|file| git2::Config::open(file).ok()?.get_string("extensions.objectformat").ok());
    formats.any(|format| format.eq_ignore_ascii_case("sha256"))
}
