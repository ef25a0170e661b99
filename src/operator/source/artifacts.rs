//! Fetches artifacts, for ConfigRepos that follow one instead of a git repository.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::mirrors::{FetchError, Mirrors, artifact_ref, history};
use crate::git::{ArtifactRepository, ArtifactSigners, Credentials, Error, History, Identity};
use api::gitops::v1alpha1::{ConfigRepo, RewindPolicy, SignerIdentity, Verify};
use object::tree::Checkout;
use reconcile::Source;

impl Mirrors {
    /// Fetches the artifact that a ConfigRepo follows.
    pub(super) async fn fetch_artifact(
        &self,
        credentials: Credentials,
        repo: &ConfigRepo,
        before: &Source,
    ) -> Result<Arc<Checkout>, FetchError> {
        let failed = |error| FetchError { checkout: before.checkout.clone(), error };
        let want = artifact_ref(&repo.spec.r#ref).map_err(failed)?;
        let namespace = repo.metadata.namespace.clone().unwrap_or_default();
        let signers = match &repo.spec.verify {
            Some(verify) => Some(self.signers(&namespace, verify).await.map_err(failed)?),
            None => None,
        };
        let (accepted, allowed) = history(repo, before);
        let (guarded, last) = (repo.spec.rewind != RewindPolicy::Allow, before.checkout.clone());
        let cancel = CancellationToken::new();
        let (downloads, blobs) = (self.downloads(credentials, &cancel), self.blobs("artifacts", &namespace));
        let repository =
            ArtifactRepository::open(&repo.spec.url, downloads, blobs, signers).map_err(failed)?;
        let work = move || {
            let history =
                History { accepted: accepted.as_deref().filter(|_| guarded), allowed: allowed.as_deref() };
            repository.fetch(&want, history, last.as_ref()).map_err(|error| {
                let checkout = match last {
                    Some(last) => Some(last).filter(|last| repository.is_trusted(&last.revision)),
                    // After a restart, the disk may still have the last accepted artifact.
                    None => accepted.and_then(|accepted| repository.checkout(&accepted)),
                };
                FetchError { checkout, error }
            })
        };
        self.in_place(&namespace, cancel, work).await.unwrap_or_else(|error| Err(failed(error)))
    }

    /// Returns the signers that a ConfigRepo accepts for its artifacts.
    async fn signers(&self, namespace: &str, verify: &Verify) -> Result<ArtifactSigners, Error> {
        // `mode` is for commits.
        let Verify { mode: _, secret_ref, identities, unknown: _ } = verify;
        let identity = |one: &SignerIdentity| {
            let SignerIdentity { issuer, subject, unknown: _ } = one.clone();
            Identity { issuer, subject }
        };
        let identities: Vec<_> = identities.iter().map(identity).collect();
        ArtifactSigners::from_secret(&self.secrets.read(&secret_ref.key(namespace)).await?, &identities)
    }
}
