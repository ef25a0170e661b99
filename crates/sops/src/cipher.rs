//! Opens single values: `ENC[AES256_GCM,data:…,iv:…,tag:…,type:…]`.

use aes_gcm::aead::consts::U32;
use aes_gcm::aead::{Aead as _, KeyInit as _, Payload};
use aes_gcm::aes::Aes256;
use aes_gcm::{AesGcm, Nonce};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

pub(crate) const DATA_KEY_BYTES: usize = 32;
/// The beginning of an encrypted value.
pub(crate) const PREFIX: &str = "ENC[AES256_GCM,";

/// The key that encrypts all values of a file.
pub(crate) type DataKey = [u8; DATA_KEY_BYTES];

/// The reason that a value cannot be opened.
pub(crate) enum Failure {
    /// It is not an encrypted value.
    Form,
    /// It was encrypted with another key, changed, or moved.
    Forged,
}

/// A decrypted value with its type in the plaintext file, such as `str`.
pub(crate) struct Opened<'a> {
    pub(crate) bytes: Vec<u8>,
    pub(crate) kind: &'a str,
}

/// Opens a value that was encrypted for a place in the file.
pub(crate) fn open<'a>(text: &'a str, key: &DataKey, place: &str) -> Result<Opened<'a>, Failure> {
    let (sealed, iv, kind) = parse(text).ok_or(Failure::Form)?;
    let cipher = AesGcm::<Aes256, U32>::new(key.into());
    let payload = Payload { msg: &sealed, aad: place.as_bytes() };
    let bytes = cipher.decrypt(Nonce::from_slice(&iv), payload).map_err(|_| Failure::Forged)?;
    Ok(Opened { bytes, kind })
}

/// Returns the ciphertext with its tag, the nonce and the type.
fn parse(text: &str) -> Option<(Vec<u8>, [u8; 32], &str)> {
    let fields = text.strip_prefix(PREFIX)?.strip_suffix(']')?;
    let (data, rest) = fields.strip_prefix("data:")?.split_once(",iv:")?;
    let (iv, rest) = rest.split_once(",tag:")?;
    let (tag, kind) = rest.split_once(",type:")?;
    let mut sealed = STANDARD.decode(data).ok()?;
    sealed.extend(STANDARD.decode(tag).ok().filter(|tag| tag.len() == 16)?);
    Some((sealed, STANDARD.decode(iv).ok()?.try_into().ok()?, kind))
}
