//! The keys of a work's values, encrypted for its cluster.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::cipher::{KEY, decrypted, derived, encoded};
use crate::identity::{Identity, Recipient};
use crate::secret::{self, SealedValue, is_sealed, named, values};
use api::Manifest;
use object::Key;

/// The version of the format, which is part of what is authenticated.
const FORMAT: &str = "gitops.wheelwright.dev/sealed-keys/v1";

/// Returns the encrypted values of a work.
pub(crate) fn sealed(manifests: &[Manifest]) -> impl Iterator<Item = SealedValue<'_>> {
    manifests.iter().filter(|manifest| is_sealed(manifest)).flat_map(values)
}

/// Returns what is authenticated with the keys of a work: the cluster, the work and its encrypted values.
pub(crate) fn context(work: &Key, manifests: &[Manifest]) -> Vec<u8> {
    let mut parts: Vec<Vec<u8>> = [FORMAT, &work.namespace, &work.name].map(|text| text.into()).into();
    for value in sealed(manifests) {
        parts.push(value.place.context());
        parts.push(value.parts.map(|(mac, _)| mac.to_vec()).unwrap_or_default());
    }
    encoded(parts.iter().map(Vec::as_slice))
}

/// Returns the key that encrypts the keys of a work.
pub(crate) fn wrapping_key(share: &Recipient, recipient: &Recipient, shared: &[u8; KEY]) -> [u8; KEY] {
    derived(&[share.0, recipient.0].concat(), shared, FORMAT)
}

/// Returns true if the keys in an annotation are encrypted for a recipient.
pub fn is_for(annotation: &str, recipient: &Recipient) -> bool {
    annotation.split_once(' ').is_some_and(|(name, _)| name == recipient.to_string())
}

/// Decrypts the values of the Secrets in a work, with the keys in its annotation. The result has the reason for each
/// Secret that cannot be decrypted, which names the value and never contains it.
pub fn open(
    work: &Key,
    annotation: Option<&str>,
    manifests: &mut [Manifest],
    identities: &[Identity],
) -> Vec<Option<String>> {
    let keys = value_keys(work, annotation, manifests, identities);
    let mut unused = keys.as_deref().unwrap_or_default().iter();
    let open = |manifest: &mut Manifest| {
        if !is_sealed(manifest) {
            return None;
        }
        let reason = match &keys {
            Err(reason) => Err((*reason).to_owned()),
            Ok(_) => open_secret(manifest, &mut unused),
        };
        reason.err().map(|reason| format!("cannot decrypt {}: {reason}", named(manifest)))
    };
    manifests.iter_mut().map(open).collect()
}

/// Decrypts the values of a Secret. Takes the key of each value, whether or not it can be decrypted.
fn open_secret<'k>(
    manifest: &mut Manifest,
    keys: &mut impl Iterator<Item = &'k [u8; KEY]>,
) -> Result<(), String> {
    let opened: Vec<_> = values(manifest)
        .map(|value| {
            let plain = keys.next().zip(value.parts.as_ref()).and_then(|(key, (_, sealed))| {
                decrypted(key, &[], sealed).map(|plain| STANDARD.encode(plain).into())
            });
            (value.place.name.to_owned(), plain)
        })
        .collect();
    let mut data = serde_json::Map::new();
    for (name, plain) in opened {
        let changed = || format!("the value {name:?} was changed or belongs to another object");
        data.insert(name.clone(), plain.ok_or_else(changed)?);
    }
    manifest.insert("data".into(), data.into());
    secret::mark(manifest, false);
    Ok(())
}

/// Decrypts the keys of all encrypted values of a work.
fn value_keys(
    work: &Key,
    annotation: Option<&str>,
    manifests: &[Manifest],
    identities: &[Identity],
) -> Result<Vec<[u8; KEY]>, &'static str> {
    let annotation = annotation.ok_or("the work contains no keys for this cluster")?;
    let identity = identities.iter().find(|identity| is_for(annotation, &identity.recipient()));
    let identity = identity.ok_or("the keys of the work are encrypted for another recipient")?;
    let changed = "the keys of the work were changed or belong to another work";
    let opened = || {
        let bytes = STANDARD.decode(annotation.split_once(' ')?.1).ok()?;
        let (share, sealed) = bytes.split_at_checked(KEY)?;
        let share = Recipient(share.try_into().ok()?);
        let key = wrapping_key(&share, &identity.recipient(), &identity.shared(&share)?);
        let keys = decrypted(&key, &context(work, manifests), sealed)?;
        keys.chunks(KEY).map(|key| key.try_into().ok()).collect::<Option<Vec<_>>>()
    };
    opened().ok_or(changed)
}
