//! The Secret with the seed of a ConfigRepo's random values.

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use api::gitops::v1alpha1::ConfigRepo;
use api::names::RANDOM_VALUES_SUFFIX;
use object::{Key, Metadata as _, Seed};

/// The keys of the Secret.
const SEED: &str = "seed";
const TIME: &str = "time";

/// Returns the namespace and name of the Secret.
pub fn key(repo: &ConfigRepo) -> Key {
    let Key { namespace, name } = Key::of(repo);
    Key::namespaced(namespace, format!("{name}{RANDOM_VALUES_SUFFIX}"))
}

/// Returns the Secret for a new seed. It is deleted with the ConfigRepo, so a recreated ConfigRepo draws other
/// values.
pub(crate) fn secret(repo: &ConfigRepo, seed: &Seed) -> Secret {
    let Key { namespace, name } = key(repo);
    let metadata = ObjectMeta {
        namespace: Some(namespace),
        name: Some(name),
        owner_references: Some(vec![repo.owner_reference()]),
        ..ObjectMeta::default()
    };
    let data = [(SEED, seed.bytes.to_vec()), (TIME, seed.time.to_string().into_bytes())]
        .into_iter()
        .map(|(key, bytes)| (key.to_owned(), ByteString(bytes)))
        .collect();
    Secret { metadata, data: Some(data), immutable: Some(true), ..Secret::default() }
}

/// Reads the seed of a ConfigRepo. A Secret without an owner, which a person created, is accepted too.
///
/// # Errors
/// Fails if the Secret belongs to another object or has no seed.
pub fn seed(repo: &ConfigRepo, secret: &Secret) -> Result<Seed, String> {
    let owners = secret.metadata.owner_references.as_deref().unwrap_or_default();
    let is_own = |owner: &OwnerReference| Some(&owner.uid) == repo.metadata.uid.as_ref();
    if !owners.is_empty() && !owners.iter().any(is_own) {
        let name = owners.first().map_or("", |owner| &owner.name);
        return Err(format!(
            "the Secret {} belongs to another {name}; remove its ownerReferences to keep its values, or delete it to draw others",
            key(repo)
        ));
    }
    let value = |key| secret.data.as_ref().and_then(|data| data.get(key)).map(|value| value.0.as_slice());
    let bytes = value(SEED).and_then(|bytes| bytes.try_into().ok());
    let time = value(TIME).and_then(|time| std::str::from_utf8(time).ok()?.parse::<Timestamp>().ok());
    match (bytes, time) {
        (Some(bytes), Some(time)) => Ok(Seed { bytes, time }),
        (None, _) => Err(format!("the Secret {} has no {SEED} of 32 bytes", key(repo))),
        (_, None) => Err(format!("the Secret {} has no {TIME} such as 2026-01-31T00:00:00Z", key(repo))),
    }
}
