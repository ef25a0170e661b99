//! OpenPGP signatures (RFC 9580), and the signers' certificates.

use std::io::{Cursor, Read as _};

use jiff::Timestamp;
use pgp::armor::{BlockType, Dearmor};
use pgp::composed::{Deserializable as _, SignedPublicKey, SignedPublicSubKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::crypto::public_key::PublicKeyAlgorithm;
use pgp::packet::{Packet, PacketParser, PublicKey, Signature, SignatureType};
use pgp::ser::Serialize as _;
use pgp::types::{KeyDetails, Tag, VerifyingKey};

use super::Refusal;
use super::object::Signed;
use object::duration::later;

const PUBLIC_KEY_END: &str = "-----END PGP PUBLIC KEY BLOCK-----";
const PUBLIC_KEY_BEGIN: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
/// The minimum size of the parameters of an RSA key in bytes: a modulus of 2048 bits and an exponent, with
/// their lengths (NIST SP 800-131A).
const MIN_RSA_BYTES: usize = 2 + 256 + 2 + 1;

/// The trusted certificates, and separate revocations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Certificates {
    keys: Vec<SignedPublicKey>,
    revocations: Vec<Signature>,
}

/// A key of a certificate that may have made a signature.
enum Candidate<'a> {
    Primary(&'a SignedPublicKey),
    Sub(&'a SignedPublicKey, &'a SignedPublicSubKey),
}

impl Certificates {
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Adds armored public keys and revocation certificates.
    pub(super) fn add(&mut self, text: &str) -> Result<(), String> {
        let mut count = 0;
        for (at, _) in text.match_indices(PUBLIC_KEY_BEGIN) {
            count += 1;
            let block = text
                .get(at..)
                .and_then(|block| Some(block.split_once(PUBLIC_KEY_END)?.0))
                .ok_or_else(|| format!("block {count} has no line {PUBLIC_KEY_END}"))?;
            let added = self.add_block(&format!("{block}{PUBLIC_KEY_END}\n"));
            added.map_err(|e| format!("block {count} cannot be read: {e}"))?;
        }
        if count == 0 {
            return Err(format!("it has no line {PUBLIC_KEY_BEGIN}"));
        }
        Ok(())
    }

    fn add_block(&mut self, armored: &str) -> Result<(), String> {
        let failed = |e: pgp::errors::Error| e.to_string();
        let mut binary = Vec::new();
        Dearmor::new(Cursor::new(armored)).read_to_end(&mut binary).map_err(|e| e.to_string())?;
        let packets: Result<Vec<Packet>, _> = PacketParser::new(binary.as_slice()).collect();
        let packets = packets.map_err(failed)?;
        // gpg exports a revocation as a separate block.
        if let [Packet::Signature(signature)] = packets.as_slice() {
            let revokes = [Some(SignatureType::KeyRevocation), Some(SignatureType::SubkeyRevocation)];
            if !revokes.contains(&signature.typ()) {
                return Err("it is a signature that revokes no key".into());
            }
            self.revocations.push(signature.clone());
            return Ok(());
        }
        let before = self.keys.len();
        for key in SignedPublicKey::from_packets(packets.into_iter().map(Ok).peekable()) {
            self.keys.push(key.map_err(failed)?);
        }
        if self.keys.len() == before { Err("it contains no public key".into()) } else { Ok(()) }
    }

    /// Returns the signer of an object.
    pub(super) fn verify(&self, signed: &Signed, now: Timestamp) -> Result<String, Refusal> {
        let signature = read(&signed.signature)?;
        let named = name_of(&signature);
        let mut refusal = Refusal::UnknownKey(named);
        for candidate in self.candidates(&signature) {
            let name = candidate.name();
            match candidate.verify(&signature, &signed.payload) {
                Ok(()) => {
                    self.check(&candidate, &signature, now)?;
                    return Ok(name);
                }
                // Another key may have the same key id.
                Err(_) => refusal = Refusal::Invalid(name),
            }
        }
        Err(refusal)
    }

    /// Returns the possible signers according to the signature.
    fn candidates(&self, signature: &Signature) -> impl Iterator<Item = Candidate<'_>> {
        let all = self.keys.iter().flat_map(|key| {
            let subkeys = key.public_subkeys.iter().map(move |subkey| Candidate::Sub(key, subkey));
            std::iter::once(Candidate::Primary(key)).chain(subkeys)
        });
        all.filter(|candidate| match candidate {
            Candidate::Primary(key) => is_issuer(signature, *key),
            Candidate::Sub(_, subkey) => is_issuer(signature, *subkey),
        })
    }

    /// Returns all copies of a key. A Secret may have an old copy next to one that revokes the key or makes it
    /// expire earlier, and all of them apply.
    fn copies(&self, primary: &PublicKey) -> impl Iterator<Item = &SignedPublicKey> {
        let fingerprint = primary.fingerprint();
        self.keys.iter().filter(move |key| key.primary_key.fingerprint() == fingerprint)
    }

    /// Checks that the key may sign, both now and at the time in the signature.
    fn check(&self, candidate: &Candidate<'_>, signature: &Signature, now: Timestamp) -> Result<(), Refusal> {
        let signer = candidate.name();
        let (Candidate::Primary(certificate) | Candidate::Sub(certificate, _)) = candidate;
        let primary = &certificate.primary_key;
        let refuse = |reason: &str| Refusal::NotForSigning { signer: signer.clone(), reason: reason.into() };
        let copies: Vec<&SignedPublicKey> = self.copies(primary).collect();
        let inside = copies.iter().flat_map(|copy| &copy.details.revocation_signatures);
        let revocations = inside.chain(&self.revocations);
        let is_revocation = |one: &Signature| {
            one.typ() == Some(SignatureType::KeyRevocation) && one.verify_key(primary).is_ok()
        };
        if revocations.into_iter().any(is_revocation) {
            return Err(Refusal::Revoked(signer));
        }
        let own = newest(copies.iter().filter_map(|copy| newest_self_signature(copy)))
            .ok_or_else(|| refuse("has no valid self-signature"))?;
        let (created, made) = (time_of(primary), signature.created().map(timestamp));
        let Some(made) = made else { return Err(Refusal::Unusable("it has no time".into())) };
        within(&signer, created, own.key_expiration_time(), now)?;
        check_algorithm(primary).map_err(refuse)?;
        let key_created = match candidate {
            Candidate::Primary(_) => {
                if !own.key_flags().sign() {
                    return Err(refuse("may not sign: its flags do not allow it"));
                }
                created
            }
            Candidate::Sub(_, subkey) => {
                let all = copies.iter().flat_map(|copy| &copy.public_subkeys);
                let same: Vec<_> =
                    all.filter(|one| one.key.fingerprint() == subkey.key.fingerprint()).collect();
                let mut signatures = same.iter().flat_map(|one| &one.signatures).chain(&self.revocations);
                if signatures.any(|one| is_subkey_revocation(one, primary, subkey)) {
                    return Err(Refusal::Revoked(signer));
                }
                let binding = newest(same.iter().filter_map(|one| newest_binding(primary, one)))
                    .ok_or_else(|| refuse("is not a subkey that may sign"))?;
                check_algorithm(&subkey.key).map_err(refuse)?;
                let created = time_of(&subkey.key);
                within(&signer, created, binding.key_expiration_time(), now)?;
                created
            }
        };
        if made < key_created {
            return Err(Refusal::NotYetValid { signer, at: key_created });
        }
        within(&signer, made, signature.signature_expiration_time(), now)
    }
}

impl Candidate<'_> {
    fn verify(&self, signature: &Signature, payload: &[u8]) -> Result<(), pgp::errors::Error> {
        match self {
            Self::Primary(key) => signature.verify(&key.primary_key, payload),
            Self::Sub(_, subkey) => signature.verify(&subkey.key, payload),
        }
    }

    /// Returns the first user id and the fingerprints.
    fn name(&self) -> String {
        let (Self::Primary(certificate) | Self::Sub(certificate, _)) = self;
        let user =
            certificate.details.users.first().map(|user| String::from_utf8_lossy(user.id.id()).into_owned());
        let user = object::text::plain(&user.unwrap_or_default(), 100);
        let primary = certificate.primary_key.fingerprint();
        match self {
            Self::Primary(_) => format!("{user} (the OpenPGP key {primary:X})"),
            Self::Sub(_, subkey) => {
                format!("{user} (the OpenPGP key {:X} of {primary:X})", subkey.key.fingerprint())
            }
        }
    }
}

/// Parses the only signature in an armored block.
fn read(armored: &str) -> Result<Signature, Refusal> {
    let unusable = |e: &dyn std::fmt::Display| Refusal::Unusable(object::text::plain(&e.to_string(), 200));
    let mut armor = Dearmor::new(Cursor::new(armored));
    let mut binary = Vec::new();
    armor.read_to_end(&mut binary).map_err(|e| unusable(&e))?;
    if armor.typ != Some(BlockType::Signature) {
        return Err(unusable(&"it is not a signature block"));
    }
    let rest = armored.rsplit_once("-----END PGP SIGNATURE-----").map_or("x", |(_, rest)| rest);
    if !rest.trim().is_empty() {
        return Err(unusable(&"text follows it"));
    }
    let mut packets = PacketParser::new(binary.as_slice());
    let signature = match packets.next() {
        Some(Ok(Packet::Signature(signature))) => signature,
        Some(Ok(_)) | None => return Err(unusable(&"it is not a signature")),
        Some(Err(e)) => return Err(unusable(&e)),
    };
    if packets.next().is_some() {
        return Err(Refusal::Several);
    }
    if signature.typ() != Some(SignatureType::Binary) {
        return Err(unusable(&"it does not sign a document"));
    }
    match signature.hash_alg() {
        Some(hash) if is_strong(hash) => Ok(signature),
        hash => Err(unusable(&format!("its hash {hash:?} is too weak"))),
    }
}

fn is_strong(hash: HashAlgorithm) -> bool {
    use HashAlgorithm::{Sha3_256, Sha3_512, Sha256, Sha384, Sha512};
    matches!(hash, Sha256 | Sha384 | Sha512 | Sha3_256 | Sha3_512)
}

fn check_algorithm(key: &impl KeyDetails) -> Result<(), &'static str> {
    use PublicKeyAlgorithm::{ECDSA, Ed448, Ed25519, EdDSALegacy, RSA, RSASign};
    match key.algorithm() {
        RSA | RSASign if key.public_params().write_len() < MIN_RSA_BYTES => {
            Err("is an RSA key of less than 2048 bits")
        }
        RSA | RSASign | ECDSA | EdDSALegacy | Ed25519 | Ed448 => Ok(()),
        _ => Err("is of an unsupported type"),
    }
}

/// Returns true if a signature names a key as its issuer. A signature without an issuer may be from any key.
fn is_issuer(signature: &Signature, key: &impl KeyDetails) -> bool {
    let (ids, fingerprints) = (signature.issuer_key_id(), signature.issuer_fingerprint());
    ids.is_empty() && fingerprints.is_empty()
        || ids.contains(&&key.legacy_key_id())
        || fingerprints.contains(&&key.fingerprint())
}

/// Returns the name of a signature's key.
fn name_of(signature: &Signature) -> String {
    match (signature.issuer_fingerprint().first(), signature.issuer_key_id().first()) {
        (Some(fingerprint), _) => format!("the OpenPGP key {fingerprint:X}"),
        (None, Some(id)) => format!("the OpenPGP key {}", object::hex(id).to_uppercase()),
        (None, None) => "an OpenPGP key".into(),
    }
}

/// Returns the newest valid signature of a key over itself or over one of its user ids.
fn newest_self_signature(certificate: &SignedPublicKey) -> Option<&Signature> {
    let primary = &certificate.primary_key;
    let direct = certificate
        .details
        .direct_signatures
        .iter()
        .filter(|one| one.typ() == Some(SignatureType::Key) && one.verify_key(primary).is_ok());
    let users = certificate.details.users.iter().flat_map(|user| {
        let certifies = |one: &&Signature| {
            one.is_certification()
                && one.typ() != Some(SignatureType::CertRevocation)
                && one.verify_certification(primary, Tag::UserId, &user.id).is_ok()
        };
        user.signatures.iter().filter(certifies)
    });
    newest(direct.chain(users))
}

/// Returns the newest valid signature that binds a signing subkey to a primary key. The subkey must confirm
/// this with its own signature.
fn newest_binding<'a>(primary: &PublicKey, subkey: &'a SignedPublicSubKey) -> Option<&'a Signature> {
    let binds = |one: &&Signature| {
        one.typ() == Some(SignatureType::SubkeyBinding)
            && one.verify_subkey_binding(primary, &subkey.key).is_ok()
    };
    let binding = newest(subkey.signatures.iter().filter(binds))?;
    let agreed = binding.embedded_signature().is_some_and(|back| {
        back.hash_alg().is_some_and(is_strong)
            && back.verify_primary_key_binding(&subkey.key, primary).is_ok()
    });
    (binding.key_flags().sign() && agreed).then_some(binding)
}

fn newest<'a>(signatures: impl Iterator<Item = &'a Signature>) -> Option<&'a Signature> {
    let strong = signatures.filter(|one| one.hash_alg().is_some_and(is_strong));
    strong.max_by_key(|one| one.created())
}

fn is_subkey_revocation(one: &Signature, primary: &impl VerifiesKeys, subkey: &SignedPublicSubKey) -> bool {
    one.typ() == Some(SignatureType::SubkeyRevocation)
        && one.verify_subkey_binding(primary, &subkey.key).is_ok()
}

/// A key that can verify signatures of other keys.
trait VerifiesKeys: VerifyingKey + pgp::ser::Serialize {}
impl<K: VerifyingKey + pgp::ser::Serialize> VerifiesKeys for K {}

fn time_of(key: &impl KeyDetails) -> Timestamp {
    timestamp(key.created_at())
}

fn timestamp(time: pgp::types::Timestamp) -> Timestamp {
    Timestamp::from_second(i64::from(time.as_secs())).unwrap_or(Timestamp::MAX)
}

/// Checks that a time is within a validity from `begin`. An absent or zero length means no end.
fn within(
    signer: &str,
    begin: Timestamp,
    length: Option<pgp::types::Duration>,
    now: Timestamp,
) -> Result<(), Refusal> {
    let signer = signer.to_owned();
    // The signer's clock may be ahead of ours.
    let tolerated = begin.saturating_sub(CLOCK_DIFFERENCE).unwrap_or(Timestamp::MIN);
    if now < tolerated {
        return Err(Refusal::NotYetValid { signer, at: begin });
    }
    let seconds = length.map_or(0, pgp::types::Duration::as_secs);
    let at = later(begin, jiff::SignedDuration::from_secs(i64::from(seconds)));
    if seconds > 0 && now >= at {
        return Err(Refusal::Expired { signer, at });
    }
    Ok(())
}

/// The maximum difference between the signer's clock and ours.
const CLOCK_DIFFERENCE: jiff::SignedDuration = jiff::SignedDuration::from_mins(10);
