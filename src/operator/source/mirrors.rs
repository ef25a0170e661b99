//! The mirrors, one for each remote and purpose, with their credentials.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::Client;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::cache::{Cache, SharedMirror};
use super::failure::failure;
use super::fetch_places::{FetchPlace, FetchPlaces};
use super::report_commit::report_commit;
use super::secrets::{SecretData, Secrets};
use crate::git::{
    Arrivals, ArtifactRef, Blobs, CommitSigner, Credentials, Downloads, Egress, Error, History, Keyring,
    Mirror, RefSpec, Remote, Retry, SignedPart, Verification, is_artifact,
};
use crate::pki;
use crate::shell::now;
use api::gitops::v1alpha1::{ConfigRepo, GitRef, RewindPolicy, Verify, VerifyMode};
use api::names;
use object::tree::Checkout;
use object::{Key, hex};
use reconcile::{Answer, Outcome, Push, Source};

/// The time limit for a fetch or push, and for waiting for other operations on the same remote. The first fetch
/// of a large repository takes seconds.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(300);

/// The time for a canceled operation to end. It checks for cancellation at every tree entry and response.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum number of operations on one remote that do not end. Each occupies a thread until the process
/// ends.
const MAX_ABANDONED: usize = 3;

/// The time after which a fetch counts as slow and releases its place. A fetch without changes takes less than
/// a second.
const TURN: Duration = Duration::from_secs(10);

/// The options of fetches and pushes.
#[derive(Clone, Debug)]
pub struct SourceOptions {
    /// The directory for mirrors. Its content may be deleted while the operator is not running.
    pub cache: PathBuf,
    /// True if ConfigRepos may use repositories on this machine.
    pub local_repositories: bool,
    /// The hosts that ConfigRepos may use, such as `*.example.com`. If empty, all hosts with a public address.
    pub hosts: Vec<String>,
}

/// The purpose of a mirror. Each purpose has its own mirror, so that a slow push does not delay a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Purpose {
    Read,
    Write,
}

/// Namespaces do not share mirrors, because a client that knows a commit of a private repository may still not
/// be allowed to read it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MirrorKey {
    pub(super) purpose: Purpose,
    pub(super) namespace: String,
    /// See [`Remote::identity`].
    pub(super) remote: String,
}

/// The current mirror, and abandoned mirrors of operations that do not end.
#[derive(Default)]
struct Slot {
    mirror: SharedMirror,
    abandoned: Vec<SharedMirror>,
    /// The number of abandoned mirrors, so that no new mirror gets a directory that a thread still writes to.
    generation: usize,
}

/// A failed fetch, and the checkout that stays valid.
pub(super) struct FetchError {
    pub(super) checkout: Option<Arc<Checkout>>,
    pub(super) error: Error,
}

/// A server, identified by its URL and the Secret for it.
pub(super) type AskedServer = (Option<Key>, String);

/// The mirrors of one operator.
pub(super) struct Mirrors {
    pub(super) secrets: Secrets,
    options: SourceOptions,
    slots: Mutex<BTreeMap<MirrorKey, Slot>>,
    pub(super) places: FetchPlaces,
    pub(super) cache: Arc<Cache>,
    pub(super) arrivals: Arc<Arrivals>,
    /// The name of this process in reports. A process ends when it loses its leadership.
    writer: String,
    /// The places where this process has pushed a report: remote, branch, directory and owner. If another
    /// process's report is there later, it is from another hub with the same identity.
    pushed: Mutex<BTreeSet<(String, String, String, String)>>,
    /// The rate limits of servers for pushes, and their errors.
    paused: Mutex<BTreeMap<AskedServer, (Instant, Error)>>,
    longest: Duration,
    pub(super) turn: Duration,
    grace: Duration,
}

/// Returns a unique name for this process.
fn process_name() -> String {
    let mut random = [0; 8];
    let filled = pki::fill_random(&mut random).is_ok();
    if filled { hex(random) } else { std::process::id().to_string() }
}

impl Mirrors {
    pub(super) fn new(hub: Client, options: SourceOptions) -> Self {
        Self {
            secrets: Secrets::new(hub),
            cache: Arc::new(Cache::new(&options.cache)),
            arrivals: Arc::default(),
            options,
            slots: Mutex::default(),
            places: FetchPlaces::new(),
            writer: process_name(),
            pushed: Mutex::default(),
            paused: Mutex::default(),
            longest: OPERATION_TIMEOUT,
            turn: TURN,
            grace: CANCEL_TIMEOUT,
        }
    }

    /// Returns the addresses that connections may be opened to.
    pub(super) fn egress(&self) -> Egress {
        let SourceOptions { cache: _, local_repositories, hosts } = &self.options;
        Egress::Hosts { names: hosts.clone(), loopback: *local_repositories }
    }

    /// Returns the downloads of a namespace in a directory for what was fetched.
    pub(super) fn blobs(&self, directory: &str, namespace: &str) -> Blobs {
        Blobs::new(self.options.cache.join(directory), namespace)
    }

    /// Returns the connections for downloads.
    pub(super) fn downloads(&self, credentials: Credentials, cancel: &CancellationToken) -> Downloads {
        let (egress, arrivals) = (self.egress(), Arc::clone(&self.arrivals));
        Downloads { credentials, egress, cancel: cancel.clone(), arrivals }
    }

    /// Runs requests, which end after `cancel`, in a place for a fetch, for at most [`OPERATION_TIMEOUT`].
    pub(super) async fn in_place<T: Send + 'static>(
        &self,
        namespace: &str,
        cancel: CancellationToken,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let _cancels = cancel.clone().drop_guard();
        let mut place = self.places.take(namespace).await;
        let mut task = spawn_blocking(work);
        if let Ok(ended) = timeout(self.turn, &mut task).await {
            return ended.map_err(|panic| Error::Cache(panic.to_string()));
        }
        FetchPlace::hand_on(&mut place);
        let ended = match timeout(self.longest, &mut task).await {
            Ok(ended) => ended,
            Err(_) => {
                cancel.cancel();
                task.await
            }
        };
        ended.map_err(|panic| Error::Cache(panic.to_string()))
    }

    /// Parses the address of a repository.
    pub(super) fn remote(&self, url: &str) -> Result<Remote, Error> {
        let remote = Remote::parse(url)?;
        if remote.is_local() && !self.options.local_repositories {
            return Err(Error::Url(
                "invalid repository URL: it is on the operator's machine; to allow this, start the operator with --local-repositories"
                    .into(),
            ));
        }
        Ok(remote)
    }

    /// Fetches the commit that a ConfigRepo follows. If the server rejects the credentials and the Secret has
    /// changed since, retries once.
    pub(super) async fn fetch(
        &self,
        repo: &ConfigRepo,
        before: &Source,
    ) -> Result<Arc<Checkout>, FetchError> {
        let failed = |error| FetchError { checkout: before.checkout.clone(), error };
        let namespace = repo.metadata.namespace.clone().unwrap_or_default();
        let secret = repo.spec.secret_ref.as_ref().map(|secret| secret.key(&namespace));
        let credentials = self.secrets.credentials(secret.as_ref()).await.map_err(failed)?;
        let fetched = self.fetch_with(credentials.clone(), repo, before).await;
        if let Err(FetchError { error: Error::Auth { .. }, .. }) = &fetched
            && let Some(replaced) = self.secrets.replaced(secret.as_ref(), &credentials).await
        {
            return self.fetch_with(replaced, repo, before).await;
        }
        fetched
    }

    async fn fetch_with(
        &self,
        credentials: Credentials,
        repo: &ConfigRepo,
        before: &Source,
    ) -> Result<Arc<Checkout>, FetchError> {
        if is_artifact(&repo.spec.url) {
            return self.fetch_artifact(credentials, repo, before).await;
        }
        let failed = |error| FetchError { checkout: before.checkout.clone(), error };
        let remote = self.remote(&repo.spec.url).map_err(failed)?;
        let want = ref_spec(&repo.spec.r#ref).map_err(failed)?;
        let namespace = repo.metadata.namespace.clone().unwrap_or_default();
        let (accepted, allowed) = history(repo, before);
        let verification = match &repo.spec.verify {
            None => None,
            Some(verify) => {
                Some(self.verification(&namespace, verify, accepted.clone()).await.map_err(failed)?)
            }
        };
        let guarded = repo.spec.rewind != RewindPolicy::Allow;
        let last = before.checkout.clone();
        let key = MirrorKey { purpose: Purpose::Read, namespace, remote: remote.identity() };
        self.with_mirror(key, remote, credentials, move |mirror| {
            let history =
                History { accepted: accepted.as_deref().filter(|_| guarded), allowed: allowed.as_deref() };
            (mirror.verification, mirror.leaves_out_reports) = (verification, true);
            mirror.fetch(&want, history).map_err(|error| {
                let accepted_commit = last.as_ref().map(|last| last.revision.clone()).or(accepted.clone());
                let checkout =
                    accepted_commit.filter(|commit| mirror.is_trusted(commit)).and_then(|commit| {
                        // After a restart, the cache may still have the last accepted commit.
                        last.or_else(|| mirror.checkout(&commit).ok().flatten())
                    });
                FetchError { checkout, error }
            })
        })
        .await
        .unwrap_or_else(|error| Err(failed(error)))
    }

    pub(super) async fn push(&self, push: Push) -> Outcome {
        let server = (push.secret.clone(), push.url.clone());
        let pushed =
            self.unless_paused(server, self.try_push(push)).await.map_err(|error| failure(&error))?;
        Ok(pushed.map_or(Answer::Nothing, Answer::Commit))
    }

    /// Writes to a server, or repeats its last error while it is rate limiting.
    pub(super) async fn unless_paused<T>(
        &self,
        server: AskedServer,
        write: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let paused = || self.paused.lock().expect("no task panics while it holds the map");
        paused().retain(|_, (until, _)| *until > Instant::now());
        if let Some((_, refusal)) = paused().get(&server) {
            return Err(refusal.clone());
        }
        let written = write.await;
        if let Err(refusal) = &written
            && let Some(pause) = refusal.pause()
        {
            paused().insert(server, (Instant::now() + pause, refusal.clone()));
        }
        written
    }

    async fn try_push(&self, push: Push) -> Result<Option<String>, Error> {
        let remote = self.remote(&push.url)?;
        let secret = push.secret.clone();
        let credentials = self.secrets.credentials(secret.as_ref()).await?;
        let signer = match &push.signing {
            Some(key) => Some(CommitSigner::from_secret(&self.secrets.read(key).await?)?),
            None => None,
        };
        let place = (remote.identity(), push.branch.clone(), push.directory.clone(), push.owner.clone());
        let has_pushed = self.pushed.lock().expect("no task panics while it holds the set").contains(&place);
        let namespace = push.repo.namespace.clone();
        let commit = Arc::new(report_commit(push, has_pushed, self.writer.clone(), signer));
        let key = MirrorKey { purpose: Purpose::Write, namespace, remote: remote.identity() };
        let attempt = |credentials| {
            let commit = Arc::clone(&commit);
            let work = move |mirror: &mut Mirror| mirror.push(&commit, &Retry::default());
            self.with_mirror(key.clone(), remote.clone(), credentials, work)
        };
        let mut pushed = attempt(credentials.clone()).await?;
        if let Err(Error::Auth { .. }) = &pushed
            && let Some(replaced) = self.secrets.replaced(secret.as_ref(), &credentials).await
        {
            pushed = attempt(replaced).await?;
        }
        let pushed = pushed?;
        if pushed.is_some() {
            self.pushed.lock().expect("no task panics while it holds the set").insert(place);
        }
        Ok(pushed)
    }

    /// Runs a blocking operation on a remote's mirror: one at a time, for at most [`OPERATION_TIMEOUT`].
    ///
    /// An operation waits for its mirror before it takes the places for a fetch. A slow remote therefore
    /// occupies the places of at most one fetch, and the first places for at most [`TURN`], unless its
    /// namespace has many slow fetches. If the caller is dropped, the operation is canceled.
    pub(super) async fn with_mirror<T: Send + 'static>(
        &self,
        key: MirrorKey,
        remote: Remote,
        credentials: Credentials,
        work: impl FnOnce(&mut Mirror) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let url = remote.to_string();
        let late = || Error::Cancelled { url: url.clone(), received: 0 };
        let (shared, dir) = self.slot(&key).ok_or_else(|| Error::Abandoned { url: url.clone() })?;
        let wait_until = Instant::now() + self.longest;
        let mut locked =
            timeout_at(wait_until, Arc::clone(&shared).lock_owned()).await.map_err(|_| late())?;
        let mut place = match key.purpose {
            Purpose::Read => {
                Some(timeout_at(wait_until, self.places.take(&key.namespace)).await.map_err(|_| late())?)
            }
            Purpose::Write => None,
        };
        let cancel = CancellationToken::new();
        let (ours, egress, arrivals) = (cancel.clone(), self.egress(), Arc::clone(&self.arrivals));
        let (cache, in_use) = (Arc::clone(&self.cache), Arc::clone(&shared));
        let _cancels = cancel.clone().drop_guard();
        let mut task = spawn_blocking(move || -> Result<T, Error> {
            let mirror_dir = Mirror::directory(&dir, &remote);
            cache.begin(&mirror_dir, &in_use);
            // A mirror left behind by a panic is reopened.
            let mut mirror = match locked.take() {
                Some(mut mirror) => {
                    mirror.set_credentials(credentials)?;
                    mirror
                }
                None => {
                    std::fs::create_dir_all(&dir)
                        .map_err(|e| Error::Cache(format!("{}: {e}", dir.display())))?;
                    Mirror::open(&dir, remote, credentials)?
                }
            };
            (mirror.cancel, mirror.egress, mirror.arrivals) = (ours, egress, arrivals);
            let done = work(&mut mirror);
            *locked = Some(mirror);
            cache.end(&mirror_dir);
            Ok(done)
        });
        let end = Instant::now() + self.longest;
        let ended = match timeout(self.turn.min(self.longest), &mut task).await {
            Err(_) => {
                place.iter_mut().for_each(FetchPlace::hand_on);
                timeout_at(end, &mut task).await
            }
            ended => ended,
        };
        if let Ok(done) = ended {
            return done.unwrap_or_else(|panic| Err(Error::Cache(panic.to_string())));
        }
        cancel.cancel();
        // The operation's own error is more specific than a timeout.
        if let Ok(done) = timeout(self.grace, task).await {
            return done.unwrap_or_else(|panic| Err(Error::Cache(panic.to_string())));
        }
        self.abandon(&key, &shared);
        Err(Error::Abandoned { url })
    }

    /// Returns the mirror for a key and its directory; `None` if too many operations on the remote do not end.
    fn slot(&self, key: &MirrorKey) -> Option<(SharedMirror, PathBuf)> {
        let mut slots = self.slots.lock().expect("no task panics while it holds the map");
        let slot = slots.entry(key.clone()).or_default();
        slot.abandoned.retain(|mirror| mirror.try_lock().is_err());
        if slot.abandoned.len() >= MAX_ABANDONED {
            return None;
        }
        let purpose = match key.purpose {
            Purpose::Read => "read",
            Purpose::Write => "write",
        };
        let dir = self.options.cache.join(purpose).join(&key.namespace);
        let dir = if slot.generation == 0 { dir } else { dir.join(slot.generation.to_string()) };
        Some((Arc::clone(&slot.mirror), dir))
    }

    /// Leaves a mirror to an operation that does not end.
    fn abandon(&self, key: &MirrorKey, mirror: &SharedMirror) {
        let mut slots = self.slots.lock().expect("no task panics while it holds the map");
        let slot = slots.entry(key.clone()).or_default();
        if Arc::ptr_eq(&slot.mirror, mirror) {
            slot.generation += 1;
            slot.abandoned.push(std::mem::take(&mut slot.mirror));
        }
    }

    /// Returns the required signatures for commits of a ConfigRepo.
    async fn verification(
        &self,
        namespace: &str,
        verify: &Verify,
        accepted: Option<String>,
    ) -> Result<Verification, Error> {
        let secret = self.secrets.read(&verify.secret_ref.key(namespace)).await?;
        verification(verify, &secret, accepted)
    }
}

/// Returns the required signatures for commits after the accepted one, with the keys in a Secret.
///
/// # Errors
/// Fails if a key in the Secret is invalid, or if the signers are those of artifacts.
pub(crate) fn verification(
    verify: &Verify,
    secret: &SecretData,
    accepted: Option<String>,
) -> Result<Verification, Error> {
    let Verify { mode, secret_ref: _, identities, unknown: _ } = verify;
    if !identities.is_empty() {
        return Err(Error::Credentials("spec.verify.identities is for oci:// URLs only".into()));
    }
    let part = match mode {
        VerifyMode::Tip => SignedPart::Tip,
        // An unknown mode is treated as the safest one.
        VerifyMode::Range | VerifyMode::Other(_) => SignedPart::Range,
    };
    Ok(Verification { keys: Arc::new(Keyring::from_secret(secret)?), part, accepted, now: now() })
}

/// Returns the reference that a ConfigRepo follows in a git repository, if its name is valid.
pub(crate) fn ref_spec(of: &GitRef) -> Result<RefSpec, Error> {
    if !of.digest.is_empty() {
        return Err(Error::Ref("ref.digest is for oci:// URLs only; pin a commit with ref.commit".into()));
    }
    match (of.commit.as_str(), of.semver.as_str(), of.tag.as_str(), of.branch.as_str()) {
        ("", "", "", "") => RefSpec::branch("main"),
        ("", "", "", branch) => RefSpec::branch(branch),
        ("", "", tag, _) => RefSpec::tag(tag),
        ("", semver, _, _) => RefSpec::semver(semver),
        (commit, ..) => RefSpec::commit(commit),
    }
}

/// Returns the reference that a ConfigRepo follows in a registry, if its name is valid.
pub(crate) fn artifact_ref(of: &GitRef) -> Result<ArtifactRef, Error> {
    match (of.digest.as_str(), of.semver.as_str(), of.tag.as_str()) {
        ("", "", "") => {
            let reason = "an artifact has no branches or commits; set ref.tag, ref.semver or ref.digest";
            Err(Error::Ref(reason.into()))
        }
        ("", "", tag) => ArtifactRef::tag(tag),
        ("", semver, _) => ArtifactRef::semver(semver),
        (digest, ..) => ArtifactRef::digest(digest),
    }
}

/// Returns the last accepted commit from the same reference of the same URL, and the rewind that a person
/// allowed.
pub(crate) fn history(repo: &ConfigRepo, before: &Source) -> (Option<String>, Option<String>) {
    let (url, reference) = (&repo.spec.url, repo.spec.r#ref.name());
    let status = repo.status.as_ref();
    let recorded = status
        .and_then(|status| status.seen.as_ref().or(status.applied.as_ref()))
        .filter(|revision| revision.url == *url && revision.reference == reference)
        .map(|revision| revision.commit.clone());
    let fetched = before.checkout.as_ref().map(|checkout| checkout.revision.clone());
    let annotations = repo.metadata.annotations.as_ref();
    (
        fetched.or(recorded),
        annotations.and_then(|annotations| annotations.get(names::ACCEPT_REVISION_ANNOTATION).cloned()),
    )
}

#[cfg(test)]
#[path = "tests/mirrors.rs"]
pub(super) mod tests;
