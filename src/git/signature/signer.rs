//! The key that signs commits of reports.

use std::collections::BTreeMap;
use std::fmt::{Debug, Formatter};
use std::io::Cursor;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use pgp::composed::{ArmorOptions, Deserializable as _, DetachedSignature, SignedSecretKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{SignatureConfig, SignatureType, Subpacket, SubpacketData};
use pgp::types::{Password, SigningKey};
use ssh_key::{HashAlg, LineEnding, PrivateKey};

use super::ssh::NAMESPACE;
use crate::git::Error;

/// A private key.
///
/// | key of the Secret | content |
/// |---|---|
/// | `ssh-privatekey` | SSH: a key in OpenSSH format |
/// | `openpgp.asc` | OpenPGP: an armored secret key |
/// | `password` | the passphrase for either key |
#[derive(Clone, PartialEq)]
pub struct CommitSigner(SigningSecret);

#[derive(Clone, PartialEq)]
enum SigningSecret {
    Ssh(Box<PrivateKey>),
    OpenPgp { key: Box<SignedSecretKey>, password: String },
}

/// Shows the kind, never the key.
impl Debug for CommitSigner {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match &self.0 {
            SigningSecret::Ssh(_) => "CommitSigner(ssh)",
            SigningSecret::OpenPgp { .. } => "CommitSigner(openpgp)",
        })
    }
}

impl CommitSigner {
    /// Reads the data of a Secret.
    ///
    /// # Errors
    /// [`Error::Credentials`] names the invalid key of the Secret, but never its value.
    pub fn from_secret(data: &BTreeMap<String, ByteString>) -> Result<Self, Error> {
        let refuse =
            |reason: &str| Error::Credentials(format!("the Secret of spec.report.signingKeyRef: {reason}"));
        let text = |name: &str| data.get(name).map(|value| std::str::from_utf8(&value.0));
        let password = text("password")
            .transpose()
            .map_err(|_| refuse("key password is not text"))?
            .unwrap_or_default()
            .trim_end_matches(['\r', '\n']);
        let secret = match (text("ssh-privatekey"), text("openpgp.asc")) {
            (Some(Ok(key)), None) => {
                let key = PrivateKey::from_openssh(key.trim())
                    .map_err(|_| refuse("key ssh-privatekey is not a key in the format of OpenSSH"))?;
                let open = if key.is_encrypted() { key.decrypt(password) } else { Ok(key) };
                let open = open.map_err(|_| refuse("key password does not open key ssh-privatekey"))?;
                SigningSecret::Ssh(Box::new(open))
            }
            (None, Some(Ok(key))) => {
                let key = SignedSecretKey::from_armor_single(Cursor::new(key));
                let (key, _) = key.map_err(|_| refuse("key openpgp.asc is not an armored secret key"))?;
                SigningSecret::OpenPgp { key: Box::new(key), password: password.to_owned() }
            }
            _ => return Err(refuse("it needs one of the keys ssh-privatekey and openpgp.asc, as text")),
        };
        let signer = Self(secret);
        // A test signature detects a wrong passphrase early.
        signer.sign(b"", Timestamp::UNIX_EPOCH)?;
        Ok(signer)
    }

    /// Signs a commit. If the key type allows it, the same commit always gets the same signature.
    pub(in crate::git) fn sign(&self, payload: &[u8], time: Timestamp) -> Result<String, Error> {
        match &self.0 {
            SigningSecret::Ssh(key) => {
                let signature = key.sign(NAMESPACE, HashAlg::Sha512, payload);
                let armored = signature.and_then(|signature| signature.to_pem(LineEnding::LF));
                armored.map_err(|e| Error::Credentials(format!("the SSH key cannot sign: {e}")))
            }
            SigningSecret::OpenPgp { key, password } => {
                let password = Password::from(password.as_str());
                let may_sign = |one: &pgp::packet::Signature| one.key_flags().sign();
                let subkey = key.secret_subkeys.iter().find(|subkey| subkey.signatures.iter().any(may_sign));
                let signed = match subkey {
                    Some(subkey) => openpgp(&subkey.key, &password, payload, time),
                    None => openpgp(&key.primary_key, &password, payload, time),
                };
                signed.map_err(|e| Error::Credentials(format!("the OpenPGP key cannot sign: {e}")))
            }
        }
    }
}

fn openpgp(
    key: &impl SigningKey,
    password: &Password,
    payload: &[u8],
    time: Timestamp,
) -> Result<String, pgp::errors::Error> {
    // The commit may be older than the key, but the signature must not be.
    let seconds = u32::try_from(time.as_second()).unwrap_or(0).max(key.created_at().as_secs());
    let mut config = SignatureConfig::v4(SignatureType::Binary, key.algorithm(), HashAlgorithm::Sha512);
    let created = SubpacketData::SignatureCreationTime(pgp::types::Timestamp::from_secs(seconds));
    let issuer = SubpacketData::IssuerFingerprint(key.fingerprint());
    config.hashed_subpackets = vec![Subpacket::critical(created)?, Subpacket::regular(issuer)?];
    config.unhashed_subpackets = vec![Subpacket::regular(SubpacketData::IssuerKeyId(key.legacy_key_id()))?];
    let signature = DetachedSignature::new(config.sign(key, password, payload)?);
    signature.to_armored_string(ArmorOptions::default())
}
