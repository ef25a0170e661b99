//! The primitives: HMAC and HKDF with SHA-256, and ChaCha20-Poly1305.

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::{hkdf, hmac};

/// The length of keys and of MACs.
pub(crate) const KEY: usize = 32;

/// Encodes texts so that different lists have different encodings.
pub(crate) fn encoded<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend_from_slice(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        bytes.extend_from_slice(part);
    }
    bytes
}

/// Returns the MAC of a list of texts.
pub(crate) fn mac<'a>(key: &[u8; KEY], parts: impl IntoIterator<Item = &'a [u8]>) -> [u8; KEY] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), &encoded(parts));
    let mut mac = [0; KEY];
    mac.copy_from_slice(tag.as_ref());
    mac
}

/// Derives a key with HKDF.
pub(crate) fn derived(salt: &[u8], secret: &[u8], info: &str) -> [u8; KEY] {
    let mut key = [0; KEY];
    let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(secret);
    let info = [info.as_bytes()];
    let okm = prk.expand(&info, hkdf::HKDF_SHA256).expect("one block is not too long");
    okm.fill(&mut key).expect("the key has the length of the block");
    key
}

/// Encrypts a text. A key encrypts only one text, so the nonce is constant.
pub(crate) fn encrypted(key: &[u8; KEY], context: &[u8], plain: &[u8]) -> Vec<u8> {
    let mut bytes = plain.to_vec();
    let sealed = cipher(key).seal_in_place_append_tag(nonce(), Aad::from(context), &mut bytes);
    sealed.expect("a text in memory is not too long");
    bytes
}

/// Decrypts a text; `None` if the key or the context is another one, or the text was changed.
pub(crate) fn decrypted(key: &[u8; KEY], context: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = sealed.to_vec();
    let plain = cipher(key).open_in_place(nonce(), Aad::from(context), &mut bytes).ok()?;
    Some(plain.to_vec())
}

fn cipher(key: &[u8; KEY]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key).expect("the key has the length of the cipher"))
}

fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}
