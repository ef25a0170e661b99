//! Opens data keys that are encrypted for OpenPGP keys.

use std::io::{Cursor, Read as _};

use pgp::composed::{Deserializable as _, Message, SignedSecretKey};
use pgp::types::Password;

use crate::cipher::{DATA_KEY_BYTES, DataKey};
use crate::limits::MAX_STANZAS;

/// Reads armored private keys.
///
/// # Errors
/// Returns the rest of a sentence that starts with the file.
pub(crate) fn parse_all(bytes: &[u8]) -> Result<Vec<SignedSecretKey>, &'static str> {
    const REFUSED: &str = "contains no armored OpenPGP private key";
    let (keys, _) = SignedSecretKey::from_armor_many(Cursor::new(bytes)).map_err(|_| REFUSED)?;
    let keys = keys.collect::<Result<Vec<_>, _>>().map_err(|_| REFUSED)?;
    let is_locked = |key: &SignedSecretKey| {
        let mut subkeys = key.secret_subkeys.iter().map(|subkey| subkey.secret_params());
        subkeys.any(|secret| secret.is_encrypted())
    };
    if keys.iter().any(is_locked) {
        return Err("contains a key with a passphrase; export it without one");
    }
    if keys.is_empty() { Err(REFUSED) } else { Ok(keys) }
}

/// Opens an armored message; `None` if the key is not one of its recipients.
pub(crate) fn open(armored: &str, key: &SignedSecretKey) -> Option<DataKey> {
    let (message, _) = Message::from_armor(Cursor::new(armored.as_bytes().to_vec())).ok()?;
    if !matches!(&message, Message::Encrypted { esk, .. } if esk.len() <= MAX_STANZAS) {
        return None;
    }
    let message = message.decrypt(&Password::empty(), key).ok()?;
    let message = if message.is_compressed() { message.decompress().ok()? } else { message };
    let mut plain = Vec::new();
    // The end of the message is read too, because it authenticates the message.
    message.take(DATA_KEY_BYTES as u64 + 1).read_to_end(&mut plain).ok()?;
    plain.try_into().ok()
}
