//! The keys that decrypt the files of ConfigRepos, from Secrets or from the environment.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;

use crate::cli::{CommandError, sops_keys};
use api::gitops::v1alpha1::ConfigRepo;
use controllers::decryption;
use object::{Gvk, Key, KeyFiles, Object};

/// Returns the keys of each ConfigRepo that decrypts files, or the reason why they are unknown.
pub(super) fn keys(
    repos: &[ConfigRepo],
    secrets: &[Object],
) -> Result<BTreeMap<Key, Result<KeyFiles, String>>, CommandError> {
    let environment = sops_keys::from_environment()?;
    let mut keys = BTreeMap::new();
    for repo in repos {
        let Some(secret) = decryption::key(repo) else { continue };
        let is_it = |object: &&Object| object.gvk() == Gvk::of::<Secret>() && object.key() == secret;
        let found = secrets.iter().find(is_it).and_then(|object| object.to_typed::<Secret>().ok());
        let found = found.map(|secret| decryption::keys(&secret)).or_else(|| environment.clone());
        let missing = || {
            format!(
                "the Secret {secret} with the keys was not read; set SOPS_AGE_KEY_FILE to a file with age keys"
            )
        };
        keys.insert(Key::of(repo), found.ok_or_else(missing));
    }
    Ok(keys)
}
