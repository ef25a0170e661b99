//! Decrypts files that `sops` encrypted for age and OpenPGP recipients.
//!
//! [`decrypt`] is a function of a file and the keys. It checks every value and the MAC of the file, so a file that
//! was changed without the keys is rejected. Errors name the key of a value, but never contain plaintext.
//!
//! The crate asks no key service: a file for a cloud KMS or Vault needs an age or OpenPGP recipient too. Key groups,
//! age plugins and SSH keys are not supported.

mod age;
mod cipher;
mod error;
mod format;
mod keys;
pub mod limits;
mod metadata;
mod openpgp;
mod rule;
mod tree;

pub use error::Error;
pub use keys::Keys;

use std::fmt;

use format::Format;
use metadata::Metadata;

/// Returns true if `sops` encrypted the file.
///
/// As in `sops`, the ending of the path determines the format. Objects of the kind `SopsSecret` do not count: their
/// operators decrypt them in the cluster.
pub fn is_encrypted(path: &str, bytes: &[u8]) -> bool {
    Format::from_path(path).marks(bytes)
}

/// The plaintext of a file.
#[derive(Clone, PartialEq, Eq)]
pub struct Decrypted {
    /// The plaintext, in the format of the file.
    pub bytes: Vec<u8>,
    /// The values that were encrypted, to recognize them in messages.
    pub values: Vec<String>,
}

/// Prints the size, never the plaintext.
impl fmt::Debug for Decrypted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Decrypted({} bytes)", self.bytes.len())
    }
}

/// Returns the plaintext of an encrypted file.
///
/// # Guarantees
/// The data is the same as in the output of `sops --decrypt`. JSON, dotenv and binary files have the same bytes, too.
/// YAML and INI files lose their comments, and YAML is printed with sorted keys.
///
/// # Errors
/// Fails if the keys do not open the file, or if the file was changed after it was encrypted.
pub fn decrypt(path: &str, bytes: &[u8], keys: &Keys) -> Result<Decrypted, Error> {
    if bytes.len() > limits::MAX_FILE_BYTES {
        return Err(Error::Malformed(format!("it has more than {} bytes", limits::MAX_FILE_BYTES)));
    }
    let format = Format::from_path(path);
    let text = std::str::from_utf8(bytes).map_err(|_| Error::Malformed("it is not UTF-8 text".into()))?;
    let mut file = format.parse(text)?;
    let metadata = Metadata::parse(&file.metadata)?;
    let key = metadata.data_key(keys)?;
    let values = tree::open_all(&mut file.documents, &metadata, &key)?;
    Ok(Decrypted { bytes: format.print(file, &key)?, values })
}

#[cfg(test)]
mod tests;
