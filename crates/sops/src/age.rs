//! Opens data keys that are encrypted for age X25519 recipients, <https://age-encryption.org/v1>.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use bech32::Bech32;
use bech32::primitives::decode::CheckedHrpstring;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::{hkdf, hmac};
use x25519_dalek::{PublicKey, StaticSecret};

use crate::cipher::DataKey;
use crate::limits::MAX_STANZAS;

const ARMOR: (&str, &str) = ("-----BEGIN AGE ENCRYPTED FILE-----", "-----END AGE ENCRYPTED FILE-----");
const VERSION: &str = "age-encryption.org/v1\n";
const X25519: &str = "age-encryption.org/v1/X25519";
/// Characters of a full line in a stanza. The last line is shorter.
const COLUMNS: usize = 64;
const FILE_KEY_BYTES: usize = 16;
const NONCE_BYTES: usize = 16;
/// The nonce of the first chunk if it is also the last. A data key takes one chunk.
const ONLY_CHUNK: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

/// A private key.
#[derive(Clone)]
pub(crate) struct Identity {
    secret: StaticSecret,
    public: PublicKey,
}

impl Identity {
    /// Reads the lines of a key file, except comments.
    ///
    /// # Errors
    /// Returns the rest of a sentence that starts with the file.
    pub(crate) fn parse_all(bytes: &[u8]) -> Result<Vec<Self>, &'static str> {
        let text = std::str::from_utf8(bytes).map_err(|_| "is not text")?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let identities = lines.map(Self::parse).collect::<Option<Vec<_>>>();
        let identities = identities.ok_or("has a line that is not an age key such as AGE-SECRET-KEY-1…")?;
        if identities.is_empty() { Err("contains no key") } else { Ok(identities) }
    }

    fn parse(line: &str) -> Option<Self> {
        let decoded = CheckedHrpstring::new::<Bech32>(line).ok()?;
        let bytes: Vec<u8> = decoded.byte_iter().collect();
        let is_identity = decoded.hrp().as_str().eq_ignore_ascii_case("age-secret-key-");
        let bytes: [u8; 32] = bytes.try_into().ok().filter(|_| is_identity)?;
        let secret = StaticSecret::from(bytes);
        Some(Self { public: PublicKey::from(&secret), secret })
    }

    /// Opens a stanza; `None` if it is for another recipient.
    fn unwrap(&self, stanza: &Stanza<'_>) -> Option<[u8; FILE_KEY_BYTES]> {
        let ["X25519", share] = stanza.words.as_slice() else { return None };
        let share: [u8; 32] = STANDARD_NO_PAD.decode(share).ok()?.try_into().ok()?;
        let shared = self.secret.diffie_hellman(&PublicKey::from(share));
        if !shared.was_contributory() {
            return None;
        }
        let salt = [share, self.public.to_bytes()].concat();
        let key = derived(&salt, shared.as_bytes(), X25519);
        opened(&key, [0; 12], &stanza.body)?.try_into().ok()
    }
}

/// Opens an armored file; `None` if it is malformed or for other recipients.
pub(crate) fn open(armored: &str, identities: &[Identity]) -> Option<DataKey> {
    let (_, armored) = armored.split_once(ARMOR.0)?;
    let (encoded, _) = armored.split_once(ARMOR.1)?;
    let encoded: String = encoded.split_ascii_whitespace().collect();
    let file = STANDARD.decode(encoded).ok()?;
    let header = Header::parse(&file)?;
    let file_key =
        header.stanzas.iter().find_map(|stanza| identities.iter().find_map(|one| one.unwrap(stanza)))?;
    let mac_key = hmac::Key::new(hmac::HMAC_SHA256, &derived(&[], &file_key, "header"));
    hmac::verify(&mac_key, header.authenticated, &header.mac).ok()?;
    let (nonce, chunk) = header.payload.split_at_checked(NONCE_BYTES)?;
    opened(&derived(nonce, &file_key, "payload"), ONLY_CHUNK, chunk)?.try_into().ok()
}

/// One recipient: its type with arguments, and the wrapped file key.
struct Stanza<'a> {
    words: Vec<&'a str>,
    body: Vec<u8>,
}

struct Header<'a> {
    stanzas: Vec<Stanza<'a>>,
    /// The bytes that the MAC authenticates.
    authenticated: &'a [u8],
    mac: Vec<u8>,
    payload: &'a [u8],
}

impl<'a> Header<'a> {
    fn parse(file: &'a [u8]) -> Option<Self> {
        let mut rest = file.strip_prefix(VERSION.as_bytes())?;
        let mut stanzas = Vec::new();
        loop {
            let before_line = rest;
            let line = take_line(&mut rest)?;
            if let Some(mac) = line.strip_prefix("--- ") {
                let length = file.len() - before_line.len() + "---".len();
                let mac = STANDARD_NO_PAD.decode(mac).ok()?;
                return Some(Self { stanzas, authenticated: file.get(..length)?, mac, payload: rest });
            }
            let words = line.strip_prefix("-> ")?.split(' ').collect();
            let mut body = String::new();
            loop {
                let line = take_line(&mut rest)?;
                body.push_str(line);
                if line.len() < COLUMNS {
                    break;
                }
            }
            stanzas.push(Stanza { words, body: STANDARD_NO_PAD.decode(body).ok()? });
            if stanzas.len() > MAX_STANZAS {
                return None;
            }
        }
    }
}

fn take_line<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let (line, after) = rest.split_at_checked(end)?;
    *rest = after.get(1..)?;
    std::str::from_utf8(line).ok()
}

/// Derives a key with HKDF.
fn derived(salt: &[u8], secret: &[u8], info: &str) -> [u8; 32] {
    let mut key = [0; 32];
    let prk = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(secret);
    let info = [info.as_bytes()];
    let okm = prk.expand(&info, hkdf::HKDF_SHA256).expect("one block is not too long");
    okm.fill(&mut key).expect("the key has the length of the block");
    key
}

fn opened(key: &[u8; 32], nonce: [u8; 12], sealed: &[u8]) -> Option<Vec<u8>> {
    let key = LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key).ok()?);
    let mut bytes = sealed.to_vec();
    let plain = key.open_in_place(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut bytes).ok()?;
    Some(plain.to_vec())
}
