//! One mirror for each remote and purpose, with its credentials.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::git::{Cancel, Commit, Credentials, Error, History, Mirror, RefSpec, Remote, Retry};
use crate::shell::REQUEST_TIMEOUT;
use api::gitops::v1alpha1::{ConfigRepo, GitRef, RewindPolicy};
use api::names;
use object::Key;
use object::tree::Checkout;
use reconcile::{Failure, FailureKind, Push, Source};

/// Longest time of a whole fetch or push. The first fetch of a large repository takes seconds.
const LONGEST: Duration = Duration::from_secs(300);

/// The purpose of a mirror. The purposes share no mirror, so that a slow push does not hold up a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Purpose {
    Read,
    Write,
}

type SharedMirror = Arc<tokio::sync::Mutex<Option<Mirror>>>;

/// A failed fetch, and the checkout that stays valid.
pub(super) struct FetchError {
    pub(super) kept: Option<Arc<Checkout>>,
    pub(super) error: Error,
}

/// The mirrors of one operator.
pub(super) struct Mirrors {
    hub: Client,
    cache: PathBuf,
    open: Mutex<BTreeMap<(Purpose, String), SharedMirror>>,
}

impl Mirrors {
    pub(super) fn new(hub: Client, cache: PathBuf) -> Self {
        Self { hub, cache, open: Mutex::default() }
    }

    /// Fetches the commit that a ConfigRepo follows.
    pub(super) async fn fetch(
        &self,
        repo: &ConfigRepo,
        before: &Source,
    ) -> Result<Arc<Checkout>, FetchError> {
        let failed = |error| FetchError { kept: before.checkout.clone(), error };
        let remote = Remote::parse(&repo.spec.url).map_err(failed)?;
        let want = ref_spec(&repo.spec.r#ref).map_err(failed)?;
        let namespace = repo.metadata.namespace.clone().unwrap_or_default();
        let secret = repo.spec.secret_ref.as_ref().map(|secret| Key::namespaced(namespace, &secret.name));
        let credentials = self.credentials(secret.as_ref()).await.map_err(failed)?;
        let (accepted, allowed) = history(repo, before);
        let guarded = repo.spec.rewind != RewindPolicy::Allow;
        let last = before.checkout.clone();
        self.with_mirror(Purpose::Read, remote, credentials, move |mirror| {
            let history =
                History { accepted: accepted.as_deref().filter(|_| guarded), allowed: allowed.as_deref() };
            mirror.fetch(&want, history).map_err(|error| {
                // After a restart, the cache may still hold the commit that was accepted last.
                let cached =
                    || accepted.as_deref().and_then(|accepted| mirror.checkout(accepted).ok().flatten());
                FetchError { kept: last.or_else(cached), error }
            })
        })
        .await
        .unwrap_or_else(|error| Err(failed(error)))
    }

    /// Pushes a report.
    pub(super) async fn push(&self, push: Push) -> Result<(), Failure> {
        self.try_push(push).await.map_err(|error| {
            let kind = match &error {
                Error::PushRejected { .. } | Error::Auth { .. } | Error::HostKey { .. } => {
                    FailureKind::Forbidden
                }
                Error::Url(_) | Error::Ref(_) | Error::Credentials(_) | Error::Content(_) => {
                    FailureKind::Invalid
                }
                Error::Unreachable { .. }
                | Error::Empty { .. }
                | Error::MissingRef { .. }
                | Error::Rewound { .. }
                | Error::Cancelled { .. }
                | Error::PushContended { .. }
                | Error::Cache(_) => FailureKind::Unavailable,
            };
            Failure { kind, message: error.to_string() }
        })
    }

    async fn try_push(&self, push: Push) -> Result<(), Error> {
        let Push { repo: _, url, secret, branch, directory, files, message, time } = push;
        let remote = Remote::parse(&url)?;
        let credentials = self.credentials(secret.as_ref()).await?;
        let commit = Commit { branch, directory, files, message, time };
        self.with_mirror(Purpose::Write, remote, credentials, move |mirror| {
            mirror.push(&commit, &Retry::default())
        })
        .await??;
        Ok(())
    }

    /// Runs a blocking operation on the mirror of a remote: one at a time, and for [`LONGEST`] at most.
    async fn with_mirror<T: Send + 'static>(
        &self,
        purpose: Purpose,
        remote: Remote,
        credentials: Credentials,
        work: impl FnOnce(&mut Mirror) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let slot = {
            let mut open = self.open.lock().expect("no task panics while it holds the map");
            Arc::clone(open.entry((purpose, remote.identity())).or_default())
        };
        let dir = self.cache.join(match purpose {
            Purpose::Read => "read",
            Purpose::Write => "write",
        });
        let mut held = slot.lock_owned().await;
        let cancel = Cancel::default();
        let (ours, url) = (cancel.clone(), remote.to_string());
        let mut task = spawn_blocking(move || -> Result<T, Error> {
            match &mut *held {
                Some(mirror) => mirror.set_credentials(credentials)?,
                None => {
                    std::fs::create_dir_all(&dir)
                        .map_err(|e| Error::Cache(format!("{}: {e}", dir.display())))?;
                    *held = Some(Mirror::open(&dir, remote, credentials)?);
                }
            }
            let mirror = held.as_mut().ok_or_else(|| Error::Cache("the mirror is not open".into()))?;
            mirror.cancel = ours;
            Ok(work(mirror))
        });
        match timeout(LONGEST, &mut task).await {
            Ok(done) => done.unwrap_or_else(|panic| Err(Error::Cache(panic.to_string()))),
            Err(_) => {
                // The thread ends at the next answer of the server, and holds the mirror until then.
                cancel.cancel();
                Err(Error::Cancelled { url })
            }
        }
    }

    async fn credentials(&self, secret: Option<&Key>) -> Result<Credentials, Error> {
        let Some(Key { namespace, name }) = secret else { return Ok(Credentials::default()) };
        let refuse =
            |why: String| Error::Credentials(format!("cannot read the Secret {namespace}/{name}: {why}"));
        let secrets: Api<Secret> = Api::namespaced(self.hub.clone(), namespace);
        let secret = timeout(REQUEST_TIMEOUT, secrets.get(name))
            .await
            .map_err(|_| refuse("the hub does not answer".into()))?;
        let secret = secret.map_err(|error| match error {
            kube::Error::Api(status) if status.is_not_found() => {
                refuse("it does not exist; create it".into())
            }
            error => refuse(error.to_string()),
        })?;
        Credentials::from_secret(&secret.data.unwrap_or_default())
    }
}

fn ref_spec(of: &GitRef) -> Result<RefSpec, Error> {
    match (of.commit.as_str(), of.semver.as_str(), of.tag.as_str(), of.branch.as_str()) {
        ("", "", "", "") => RefSpec::branch("main"),
        ("", "", "", branch) => RefSpec::branch(branch),
        ("", "", tag, _) => RefSpec::tag(tag),
        ("", semver, _, _) => RefSpec::semver(semver),
        (commit, ..) => RefSpec::commit(commit),
    }
}

/// The commit that was accepted last, and the commit that a person allowed after it. There is none after an edit of the spec: a
/// person who may point a ConfigRepo elsewhere need not be asked again.
fn history(repo: &ConfigRepo, before: &Source) -> (Option<String>, Option<String>) {
    let status = repo.status.as_ref().filter(|status| status.observed_generation == repo.metadata.generation);
    let recorded = status
        .and_then(|status| status.seen.as_ref().or(status.applied.as_ref()))
        .map(|revision| revision.commit.clone());
    let fetched =
        before.checkout.as_ref().filter(|_| status.is_some()).map(|checkout| checkout.revision.clone());
    let annotations = repo.metadata.annotations.as_ref();
    (
        fetched.or(recorded),
        annotations.and_then(|annotations| annotations.get(names::ACCEPT_REVISION_ANNOTATION).cloned()),
    )
}
