//! Sets commit statuses at git services, or as notes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::failure::failure;
use super::mirrors::{MirrorKey, Mirrors, Purpose};
use crate::git::{Error, Mirror, Note, Provider, Retry, StatusRequest};
use crate::shell::now;
use api::gitops::v1alpha1::ProviderType;
use object::Key;
use reconcile::{Answer, CommitStatus, Outcome};

/// The git services, including those that are rate limiting.
pub(super) struct CommitStatuses {
    mirrors: Arc<Mirrors>,
    /// The end of a service's rate limit for a token, by the Secret and the address.
    paused: Mutex<BTreeMap<(Key, String), Timestamp>>,
    /// The last status that a service has accepted, by ConfigRepo and without its description. The hub records
    /// it later, and that write may fail with a conflict.
    taken: Mutex<BTreeMap<Key, CommitStatus>>,
}

impl CommitStatuses {
    pub(super) fn new(mirrors: Arc<Mirrors>) -> Self {
        Self { mirrors, paused: Mutex::default(), taken: Mutex::default() }
    }

    pub(super) async fn set(&self, status: CommitStatus) -> Outcome {
        self.set_once(status, now()).await.map(|()| Answer::Nothing).map_err(|error| failure(&error))
    }

    /// Sets a status, unless the service has already accepted it from this process.
    async fn set_once(&self, status: CommitStatus, now: Timestamp) -> Result<(), Error> {
        let state = CommitStatus { description: String::new(), ..status.clone() };
        let taken = || self.taken.lock().expect("no task panics while it holds the map");
        if taken().get(&status.repo) != Some(&state) {
            self.try_set(status, now).await?;
            taken().insert(state.repo.clone(), state);
        }
        Ok(())
    }

    async fn try_set(&self, status: CommitStatus, now: Timestamp) -> Result<(), Error> {
        let provider = match &status.provider {
            ProviderType::GitHub => Provider::GitHub,
            ProviderType::GitLab => Provider::GitLab,
            ProviderType::Gitea => Provider::Gitea,
            ProviderType::Notes => return self.push_note(status, now).await,
            ProviderType::Other(other) => {
                return Err(Error::Url(format!("spec.report.commitStatus.type {other:?} is not known")));
            }
        };
        let CommitStatus { repo, provider: _, address, url, secret, commit, context, state, description } =
            status;
        let repository = self.mirrors.remote(&url)?;
        if !address.is_empty() {
            self.mirrors.remote(&format!("{}/x", address.trim_end_matches('/')))?;
        }
        let service = (secret, format!("{address} {}", repository.host().unwrap_or_default()));
        self.check_pause(&service, &url, now)?;
        let credentials = self.mirrors.secrets.credentials(Some(&service.0)).await?;
        let state = state.as_str().to_owned();
        let request = StatusRequest { provider, address, repository, commit, context, state, description };
        let (egress, cancel) = (self.mirrors.egress(), CancellationToken::new());
        let (cancels, request) = (cancel.clone(), move || request.send(credentials, egress, cancel, now));
        let sent = self.mirrors.in_place(&repo.namespace, cancels, request).await.flatten();
        if let Err(Error::Throttled { until, .. }) = &sent {
            self.paused.lock().expect("no task panics while it holds the map").insert(service, *until);
        }
        sent
    }

    /// Writes a status to the note of its commit.
    async fn push_note(&self, status: CommitStatus, now: Timestamp) -> Result<(), Error> {
        let CommitStatus { repo, provider: _, address, url, secret, commit, context, state, description } =
            status;
        if !address.is_empty() {
            let reason = "spec.report.commitStatus.address is not for notes: they are in the repository of spec.url; remove it";
            return Err(Error::Url(reason.into()));
        }
        let remote = self.mirrors.remote(&url)?;
        let credentials = self.mirrors.secrets.credentials(Some(&secret)).await?;
        let key = MirrorKey { purpose: Purpose::Write, namespace: repo.namespace, remote: remote.identity() };
        let note = Note { commit, context, text: format!("{}: {description}", state.as_str()), time: now };
        let push = move |mirror: &mut Mirror| mirror.push_note(&note, &Retry::default());
        let pushed = async { self.mirrors.with_mirror(key, remote, credentials, push).await? };
        self.mirrors.unless_paused((Some(secret), url), pushed).await
    }

    /// Rejects a request to a service that is rate limiting.
    fn check_pause(&self, service: &(Key, String), url: &str, now: Timestamp) -> Result<(), Error> {
        let mut paused = self.paused.lock().expect("no task panics while it holds the map");
        paused.retain(|_, until| *until > now);
        match paused.get(service) {
            Some(until) => Err(Error::Throttled { url: url.to_owned(), until: *until }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "tests/commit_status.rs"]
mod tests;
