//! Reads the keys for encrypted files from the environment, from the same variables as sops.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::sync::Arc;

use anyhow::Context as _;

use super::CommandError;
use object::KeyFiles;

/// The variable with age keys.
const KEYS: &str = "SOPS_AGE_KEY";
/// The variable with the path of a file with age keys.
const FILE: &str = "SOPS_AGE_KEY_FILE";
/// The ending of age keys in a Secret.
const ENDING: &str = ".agekey";

/// Returns the keys; `None` if no variable is set.
///
/// # Errors
/// Fails if the file cannot be read.
pub(crate) fn from_environment() -> Result<Option<KeyFiles>, CommandError> {
    let mut files = BTreeMap::new();
    if let Some(keys) = env::var(KEYS).ok().filter(|keys| !keys.is_empty()) {
        files.insert(format!("{KEYS}{ENDING}"), keys.into_bytes());
    }
    if let Some(path) = env::var_os(FILE).filter(|path| !path.is_empty()) {
        let keys = fs::read(&path).with_context(|| format!("cannot read {}, from {FILE}", path.display()))?;
        files.insert(format!("{FILE}{ENDING}"), keys);
    }
    Ok((!files.is_empty()).then(|| KeyFiles(Arc::new(files))))
}
