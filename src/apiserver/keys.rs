//! The keys of a server, generated once and stored with its data.

use std::fs;
use std::io::Write;
use std::path::Path;

use jiff::Timestamp;

use super::lock::private;
use super::start_error::StartError;
use crate::pki::{Authority, Error, Identity, KeyPair, fill_random};

/// The certificate authority for clients and the server itself, and the key for service account tokens.
pub(super) struct Keys {
    pub(super) authority: Authority,
    /// In PEM.
    pub(super) tokens: String,
}

impl Keys {
    pub(super) fn create(now: Timestamp) -> Result<Self, StartError> {
        Ok(Self {
            authority: Authority::create("wheelwright-ca", now)?,
            tokens: KeyPair::generate()?.to_pem(),
        })
    }

    /// Reads the keys in a locked directory, and generates missing keys.
    pub(super) fn open(dir: &Path, now: Timestamp) -> Result<Self, StartError> {
        let data = |path: &Path| {
            let path = path.display().to_string();
            move |source| StartError::Data { path, source }
        };
        let [certificate, key, tokens] =
            ["ca.crt", "ca.key", "service-accounts.key"].map(|name| dir.join(name));
        // The certificate is written last. If it exists, so do the other files.
        if !certificate.exists() {
            let made = Self::create(now)?;
            let identity = made.authority.identity();
            for (path, text) in
                [(&key, &identity.key), (&tokens, &made.tokens), (&certificate, &identity.certificate)]
            {
                write_private(path, text).map_err(data(path))?;
            }
            return Ok(made);
        }
        let read = |path: &Path| fs::read_to_string(path).map_err(data(path));
        let identity = Identity { certificate: read(&certificate)?, key: read(&key)? };
        Ok(Self { authority: Authority::load(&identity)?, tokens: read(&tokens)? })
    }

    /// Returns a seed for uids that no earlier run has used.
    pub(super) fn seed(&self) -> Result<u64, Error> {
        let mut bytes = [0; 8];
        fill_random(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// Atomically writes a file that only its owner can read.
///
/// # Errors
/// Returns the error of the operating system.
pub fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let new = path.with_extension("new");
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    let mut file = private(&mut options).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)
}
