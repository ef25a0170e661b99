//! The Secret with the keys that decrypt the files of a ConfigRepo.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;

use api::gitops::v1alpha1::{ConfigRepo, Decryption};
use object::{Key, KeyFiles, Metadata as _};

/// Returns the namespace and name of the Secret; `None` without `spec.decryption`.
pub fn key(repo: &ConfigRepo) -> Option<Key> {
    let Decryption { secret_ref, unknown: _ } = repo.spec.decryption.as_ref()?;
    Some(secret_ref.key(repo.namespace()))
}

/// Reads the keys in the Secret.
pub fn keys(secret: &Secret) -> KeyFiles {
    let data = secret.data.iter().flatten();
    KeyFiles(Arc::new(data.map(|(name, value)| (name.clone(), value.0.clone())).collect()))
}
