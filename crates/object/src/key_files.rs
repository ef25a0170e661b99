use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The files of a Secret with private keys, by name.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct KeyFiles(pub Arc<BTreeMap<String, Vec<u8>>>);

/// Prints the names, never the keys.
impl fmt::Debug for KeyFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeyFiles").field(&self.0.keys()).finish()
    }
}
