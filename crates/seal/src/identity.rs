//! The X25519 keys of clusters, in the text form of age.

use std::fmt::{Debug, Display, Formatter};
use std::str::FromStr;

use bech32::primitives::decode::CheckedHrpstring;
use bech32::{Bech32, Hrp};
use x25519_dalek::{PublicKey, StaticSecret};

use crate::cipher::KEY;

const PRIVATE: Hrp = Hrp::parse_unchecked("age-secret-key-");
const PUBLIC: Hrp = Hrp::parse_unchecked("age");

/// A private key.
#[derive(Clone)]
pub struct Identity {
    secret: StaticSecret,
    recipient: Recipient,
}

/// A public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Recipient(pub(crate) [u8; KEY]);

impl Identity {
    /// Returns the identity of 32 random bytes.
    pub fn new(random: [u8; KEY]) -> Self {
        let secret = StaticSecret::from(random);
        Self { recipient: Recipient(PublicKey::from(&secret).to_bytes()), secret }
    }

    /// Reads the lines of an identity file, except comments; `None` if a line is not an identity.
    pub fn parse_all(text: &str) -> Option<Vec<Self>> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(|line| parsed(line, PRIVATE).map(Self::new)).collect()
    }

    /// Returns the text of the private key.
    pub fn private(&self) -> String {
        text(PRIVATE, &self.secret.to_bytes()).to_ascii_uppercase()
    }

    /// Returns the public key.
    pub fn recipient(&self) -> Recipient {
        self.recipient
    }

    /// Returns the shared secret with a public key; `None` for a public key that no private key has.
    pub(crate) fn shared(&self, other: &Recipient) -> Option<[u8; KEY]> {
        let shared = self.secret.diffie_hellman(&PublicKey::from(other.0));
        shared.was_contributory().then(|| shared.to_bytes())
    }
}

impl Debug for Identity {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "Identity({})", self.recipient)
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        self.recipient == other.recipient
    }
}

impl Eq for Identity {}

impl Display for Recipient {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&text(PUBLIC, &self.0))
    }
}

impl FromStr for Recipient {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        parsed(text, PUBLIC).map(Self).ok_or(())
    }
}

fn text(prefix: Hrp, key: &[u8; KEY]) -> String {
    bech32::encode::<Bech32>(prefix, key).expect("a key is not too long")
}

fn parsed(text: &str, prefix: Hrp) -> Option<[u8; KEY]> {
    let decoded = CheckedHrpstring::new::<Bech32>(text).ok()?;
    let bytes: Vec<u8> = decoded.byte_iter().collect();
    bytes.try_into().ok().filter(|_| decoded.hrp() == prefix)
}
