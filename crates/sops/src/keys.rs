//! Reads private keys.

use std::fmt;

use pgp::composed::SignedSecretKey;

use crate::age::Identity;
use crate::limits::MAX_KEYS;
use crate::openpgp;
use object::KeyFiles;

/// The ending of files with age keys, as in Flux.
const AGE: &str = ".agekey";
/// The ending of files with OpenPGP keys, as in Flux.
const OPENPGP: &str = ".asc";

/// Private keys that open files.
#[derive(Clone, Default)]
pub struct Keys {
    pub(crate) age: Vec<Identity>,
    pub(crate) openpgp: Vec<SignedSecretKey>,
}

/// Prints the number of keys, never the keys.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({} age, {} OpenPGP)", self.age.len(), self.openpgp.len())
    }
}

impl Keys {
    /// Reads the files whose names end with `.agekey` or `.asc`; ignores others.
    ///
    /// # Errors
    /// Returns the name of the file that contains no such key. The message contains none of its content.
    pub fn from_files(files: &KeyFiles) -> Result<Self, String> {
        let mut keys = Self::default();
        for (name, bytes) in &*files.0 {
            let read = match (name.ends_with(AGE), name.ends_with(OPENPGP)) {
                (true, _) => Identity::parse_all(bytes).map(|identities| keys.age.extend(identities)),
                (_, true) => openpgp::parse_all(bytes).map(|secrets| keys.openpgp.extend(secrets)),
                (false, false) => Ok(()),
            };
            read.map_err(|reason| format!("the key file {name:?} {reason}"))?;
        }
        match keys.age.len() + keys.openpgp.len() {
            0 => Err(format!("there is no key file whose name ends with {AGE} or {OPENPGP}")),
            count if count > MAX_KEYS => Err(format!("there are more than {MAX_KEYS} keys")),
            _ => Ok(keys),
        }
    }
}
