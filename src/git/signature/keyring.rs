//! The trusted keys for signatures, read from a Secret.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use sha2::{Digest as _, Sha256};

use super::object::Signed;
use super::{Refusal, openpgp, ssh};
use crate::git::Error;

/// Trusted keys and revoked keys.
///
/// | key of the Secret | content |
/// |---|---|
/// | names that end with `.asc` | OpenPGP: armored public keys and revocation certificates |
/// | `allowed_signers` | SSH: as `gpg.ssh.allowedSignersFile` (ssh-keygen(1), ALLOWED SIGNERS) |
/// | `revoked_keys` | SSH: public keys, one per line |
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keyring {
    openpgp: openpgp::Certificates,
    ssh: ssh::Signers,
    digest: String,
}

impl Keyring {
    /// Reads the data of a Secret.
    ///
    /// # Errors
    /// [`Error::Credentials`] names the invalid key of the Secret, or reports that there is none. An
    /// unsupported key is an error, because it could be a revocation.
    pub fn from_secret(data: &BTreeMap<String, ByteString>) -> Result<Self, Error> {
        let mut keys = Self::default();
        let mut digest = Sha256::new();
        for (name, value) in data {
            let refuse = |reason: String| {
                Error::Credentials(format!("key {name} of the Secret of spec.verify: {reason}"))
            };
            let text = std::str::from_utf8(&value.0).map_err(|_| refuse("it is not text".into()))?;
            match name.as_str() {
                "allowed_signers" => keys.ssh.allow(text).map_err(refuse)?,
                "revoked_keys" => keys.ssh.revoke(text).map_err(refuse)?,
                armored if armored.ends_with(".asc") => keys.openpgp.add(text).map_err(refuse)?,
                _ => return Err(refuse("it is not *.asc, allowed_signers or revoked_keys".into())),
            }
            digest.update(name);
            digest.update(value.0.len().to_be_bytes());
            digest.update(&value.0);
        }
        if keys.openpgp.is_empty() && keys.ssh.is_empty() {
            let reason = "the Secret of spec.verify holds no key: add *.asc with OpenPGP keys, or allowed_signers with SSH keys";
            return Err(Error::Credentials(reason.into()));
        }
        keys.digest = object::hex(digest.finalize());
        Ok(keys)
    }

    /// Returns a digest of the Secret's content.
    pub(in crate::git) fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the signer of an object.
    pub(super) fn verify(&self, signed: &Signed, now: Timestamp) -> Result<String, Refusal> {
        let armor = signed.signature.trim_start();
        if armor.starts_with("-----BEGIN SSH SIGNATURE-----") {
            self.ssh.verify(signed, now)
        } else if armor.starts_with("-----BEGIN PGP SIGNATURE-----") {
            self.openpgp.verify(signed, now)
        } else {
            Err(Refusal::Unusable("it is neither of OpenPGP nor of SSH".into()))
        }
    }
}
