//! Limits of the texts that are read. Each is far above the sizes that people write, and far below a size that does
//! harm.

/// A file that is read: ConfigMaps hold 1 MiB at most, CRD bundles reach some MiB.
pub const MAX_FILE_BYTES: usize = 16 << 20;
/// Documents in one file.
pub const MAX_DOCUMENTS: usize = 10_000;
/// Values within values. The deepest CRDs stay below 60.
pub const MAX_DEPTH: usize = 128;
/// Values in one file, copies by aliases included; some 100 bytes of memory each. A CRD bundle of 5 MiB has
/// 200,000.
pub const MAX_VALUES: usize = 1_000_000;
/// Dashes that stand alone in the brackets of a file: the file is read again for each.
pub const MAX_LONE_DASHES: usize = 8;
/// Values in one file that anchors and aliases copy, which cost nothing to write. People copy some hundred.
pub const MAX_COPIED_VALUES: usize = 100_000;
/// Bytes in one file that anchors and aliases copy: as many as the file itself may have.
pub const MAX_COPIED_BYTES: usize = MAX_FILE_BYTES;
/// Memory of one value beside its text.
pub const VALUE_BYTES: usize = 100;
