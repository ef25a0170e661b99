//! Decrypts files when they are read, and keeps their plaintext out of messages.

use std::cell::OnceCell;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::decode::Result;
use super::error::{Reason, RenderError};
use object::KeyFiles;
use sops::{Decrypted, Keys};

/// The shortest text that counts as a secret, in bytes.
const SHORTEST: usize = 4;
/// The length of the beginning of a secret by which messages are searched, in characters. Messages cut long values.
const SEARCHED: usize = 12;

/// The keys for files that are encrypted with SOPS.
pub(super) struct Decryption<'a> {
    files: Option<&'a std::result::Result<KeyFiles, String>>,
    keys: OnceCell<std::result::Result<Keys, String>>,
}

impl<'a> Decryption<'a> {
    pub(super) fn new(files: Option<&'a std::result::Result<KeyFiles, String>>) -> Self {
        Self { files, keys: OnceCell::new() }
    }

    /// Decrypts a file; returns `None` if it is not encrypted.
    ///
    /// # Errors
    /// Fails if it is encrypted and the keys do not open it. The error has no file yet.
    pub(super) fn open(&self, path: &str, bytes: &[u8]) -> Result<Option<Decrypted>> {
        if !sops::is_encrypted(path, bytes) {
            return Ok(None);
        }
        let refuse = |reason: String| {
            RenderError::new(Reason::Encrypted, "", format!("{path:?} is encrypted with SOPS: {reason}"))
        };
        let Some(files) = self.files else {
            let hint = "set spec.decryption of the ConfigRepo; on the command line, set SOPS_AGE_KEY_FILE";
            return Err(refuse("there is no key to decrypt it".into()).hint(hint).into());
        };
        let keys = self.keys.get_or_init(|| Keys::from_files(files.as_ref().map_err(Clone::clone)?));
        let keys = keys.as_ref().map_err(|reason| refuse(reason.clone()))?;
        Ok(Some(sops::decrypt(path, bytes, keys).map_err(|error| refuse(error.to_string()))?))
    }
}

/// Returns true if an error quotes a decrypted value, or a part of it.
pub(super) fn quotes(error: &RenderError, decrypted: &Decrypted) -> bool {
    let RenderError { message, field, hint, .. } = error;
    let said = [Some(message), field.as_ref(), hint.as_ref()];
    let says = |text: &str| {
        let head: String = text.chars().take(SEARCHED).collect();
        let is_in = |said: &&String| said.contains(&head) || said.contains(&head.escape_debug().to_string());
        head.len() >= SHORTEST && said.iter().flatten().any(is_in)
    };
    let mut values = decrypted.values.iter();
    values.any(|value| says(&STANDARD.encode(value)) || value.lines().any(|line| says(line.trim())))
}

/// Replaces the details of an error that may quote plaintext.
pub(super) fn without_details(error: RenderError) -> RenderError {
    let RenderError { reason, file, through, undrawn, charts, .. } = error;
    let message = "invalid after decryption; the details are hidden because they may contain secrets";
    let hint = "decrypt the file with sops, and render the result";
    RenderError { through, undrawn, charts, ..RenderError::new(reason, file, message).hint(hint) }
}
