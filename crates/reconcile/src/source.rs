//! The repositories that a source controller fetches.

use std::sync::Arc;

use api::gitops::v1alpha1::{ConfigRepo, GitRef, Verify};
use object::tree::Checkout;

/// The ConfigRepo and the fields of its spec that a source was fetched for.
///
/// A plan takes a source only for the spec that it was fetched for. Otherwise an edit of the URL would apply
/// the tree of the old repository under the new spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceIdentity {
    /// The uid of the ConfigRepo, which a ConfigRepo of the same name that is created later does not have.
    pub uid: String,
    /// `spec.url`.
    pub url: String,
    /// `spec.ref`.
    pub reference: GitRef,
    /// `spec.verify`.
    pub verify: Option<Verify>,
}

impl SourceIdentity {
    /// Returns the identity that a fetch for a ConfigRepo has now.
    pub fn of(repo: &ConfigRepo) -> Self {
        Self {
            uid: repo.metadata.uid.clone().unwrap_or_default(),
            url: repo.spec.url.clone(),
            reference: repo.spec.r#ref.clone(),
            verify: repo.spec.verify.clone(),
        }
    }
}

/// The state of a repository after the last fetch of the source controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The ConfigRepo and the fields of its spec that the fetch was for.
    pub identity: SourceIdentity,
    /// The last tree that was fetched and verified.
    pub checkout: Option<Arc<Checkout>>,
    /// The error of the newest attempt, if that failed. The checkout is then an older one, and stays valid.
    pub failure: Option<SourceFailure>,
}

/// Why a fetch failed, or why its commit was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFailure {
    /// CamelCase word for conditions, events and metrics.
    pub reason: &'static str,
    /// The error and its correction, without credentials.
    pub message: String,
}
