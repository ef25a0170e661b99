//! Reads the Secrets of ConfigRepos.
//!
//! Secrets are read from the API server each time, so that a change takes effect at the next operation. They
//! are not watched: the operator's role allows it to read a Secret, but not to list a namespace's Secrets.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use tokio::time::{sleep, timeout};

use crate::git::{Credentials, Error};
use crate::shell::{REQUEST_TIMEOUT, message, now};
use api::gitops::v1alpha1::ConfigRepo;
use controllers::{decryption, random_values};
use object::{Key, KeyFiles, Seed};

/// The interval between checks of the Secrets that may fix a ConfigRepo's fetch. 100 such ConfigRepos cost the
/// hub 10 requests per second.
const LOOK: Duration = Duration::from_secs(10);

/// The values in a Secret by key.
pub(super) type SecretData = BTreeMap<String, ByteString>;

/// The Secrets of a hub.
pub(super) struct Secrets {
    hub: Client,
    pub(super) look: Duration,
}

impl Secrets {
    pub(super) fn new(hub: Client) -> Self {
        Self { hub, look: LOOK }
    }

    /// Reads credentials. Without a Secret, they are empty.
    ///
    /// # Errors
    /// See [`Secrets::read`]. Also returns [`Error::Credentials`] if the Secret is invalid.
    pub(super) async fn credentials(&self, secret: Option<&Key>) -> Result<Credentials, Error> {
        match secret {
            Some(secret) => Ok(Credentials::from_secret(&self.read(secret).await?)?.at(now())),
            None => Ok(Credentials::default()),
        }
    }

    /// Rereads credentials that a server rejected; `None` if they are unchanged.
    pub(super) async fn replaced(&self, secret: Option<&Key>, refused: &Credentials) -> Option<Credentials> {
        let read = self.credentials(secret).await.ok()?;
        (read != *refused).then_some(read)
    }

    /// Reads the data of a Secret.
    ///
    /// # Errors
    /// Returns [`Error::Credentials`] if the Secret does not exist or the operator may not read it, and
    /// [`Error::Unreachable`] if the hub does not respond or fails.
    pub(super) async fn read(&self, key: &Key) -> Result<SecretData, Error> {
        Ok(self.get(key).await?.data.unwrap_or_default())
    }

    /// Returns the resource versions of the Secrets that a ConfigRepo's fetch reads; `None` for a Secret that
    /// cannot be read.
    pub(super) async fn versions(&self, repo: &ConfigRepo) -> Vec<Option<String>> {
        let namespace = repo.metadata.namespace.clone().unwrap_or_default();
        let charts = repo.spec.charts.as_ref().map(|charts| &charts.secret_ref);
        let verify = repo.spec.verify.as_ref().map(|verify| &verify.secret_ref);
        let mut versions = Vec::new();
        for secret in repo.spec.secret_ref.iter().chain(charts).chain(verify) {
            let secret = self.get(&secret.key(&namespace)).await;
            versions.push(secret.ok().and_then(|secret| secret.metadata.resource_version));
        }
        versions
    }

    /// Waits until the Secrets that a ConfigRepo's fetch reads have other resource versions.
    pub(super) async fn changed(&self, repo: &ConfigRepo, versions: &[Option<String>]) {
        loop {
            sleep(self.look).await;
            if self.versions(repo).await != versions {
                return;
            }
        }
    }

    /// Reads the seed of a ConfigRepo whose charts use random values; `None` if there is none yet. `before` is
    /// the last seed, which is used while the hub does not respond.
    pub(super) async fn seed(
        &self,
        repo: &ConfigRepo,
        before: Option<&Result<Seed, String>>,
    ) -> Option<Result<Seed, String>> {
        if repo.status.as_ref().is_none_or(|status| status.random_values.is_empty()) {
            return None;
        }
        let seed = |secret: Option<Secret>| secret.map(|secret| random_values::seed(repo, &secret));
        self.get_or(before, &random_values::key(repo), seed).await
    }

    /// Reads the keys that decrypt the files of a ConfigRepo; `None` without `spec.decryption`. `before` are the
    /// last keys, which are used while the hub does not respond.
    pub(super) async fn keys(
        &self,
        repo: &ConfigRepo,
        before: Option<&Result<KeyFiles, String>>,
    ) -> Option<Result<KeyFiles, String>> {
        let key = decryption::key(repo)?;
        let missing = || format!("the Secret {key} with the keys does not exist; create it");
        let keys = |secret: Option<Secret>| Some(secret.as_ref().map(decryption::keys).ok_or_else(missing));
        self.get_or(before, &key, keys).await
    }

    /// Reads a value from a Secret. While the hub does not respond, the value is the last one.
    async fn get_or<T: Clone>(
        &self,
        before: Option<&Result<T, String>>,
        key: &Key,
        value: impl FnOnce(Option<Secret>) -> Option<Result<T, String>>,
    ) -> Option<Result<T, String>> {
        match (self.get_opt(key).await, before) {
            (Ok(secret), _) => value(secret),
            (Err(_), Some(Ok(before))) => Some(Ok(before.clone())),
            (Err(error), _) => Some(Err(error.to_string())),
        }
    }

    async fn get(&self, key: &Key) -> Result<Secret, Error> {
        let missing = || unusable(key, "it does not exist; create it");
        self.get_opt(key).await?.ok_or_else(missing)
    }

    async fn get_opt(&self, key: &Key) -> Result<Option<Secret>, Error> {
        let secrets: Api<Secret> = Api::namespaced(self.hub.clone(), &key.namespace);
        let secret = timeout(REQUEST_TIMEOUT, secrets.get_opt(&key.name))
            .await
            .map_err(|_| unreadable(key, "it does not respond"))?;
        secret.map_err(|error| {
            let reason = message(&error);
            match error {
                kube::Error::Api(refusal) if refusal.code == 403 => unusable(key, &reason),
                _ => unreadable(key, &reason),
            }
        })
    }
}

/// Returns the error for a Secret that a person has to fix.
fn unusable(key: &Key, reason: &str) -> Error {
    Error::Credentials(format!("cannot read the Secret {key}: {reason}"))
}

/// Returns the error for a Secret that can be read once the hub responds again.
fn unreadable(key: &Key, reason: &str) -> Error {
    let url = "the API server of the hub".to_owned();
    Error::Unreachable { url, reason: format!("cannot read the Secret {key}: {reason}") }
}

#[cfg(test)]
#[path = "tests/secrets.rs"]
mod tests;
