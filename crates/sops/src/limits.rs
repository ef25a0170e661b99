//! Limits on the work for one file. With one or two keys, a file takes at most a second before it is rejected.

/// Bytes in one file. A Secret holds 1 MiB, and encryption doubles that if the values are short.
pub const MAX_FILE_BYTES: usize = 4 << 20;
/// Bytes in the keys on the path of a value, which are authenticated with each value.
pub(crate) const MAX_PLACE_BYTES: usize = 4096;
/// Metadata fields of a flat format. Each recipient has up to four.
pub(crate) const MAX_METADATA_FIELDS: usize = 1000;
/// Recipients of one file. A team has dozens.
pub(crate) const MAX_RECIPIENTS: usize = 100;
/// Bytes of one wrapped data key. An RSA key of 16,384 bits needs 3 KB in armor.
pub(crate) const MAX_WRAPPED_BYTES: usize = 4096;
/// Recipients of one wrapped data key. `sops` writes one, and other programs may add some that belong to nobody.
pub(crate) const MAX_STANZAS: usize = 4;
/// Private keys in one Secret. A rotation has two.
pub(crate) const MAX_KEYS: usize = 20;
