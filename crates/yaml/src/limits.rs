//! Limits on parsed text. Each is far above the sizes that people write, and far below a harmful size.

/// Bytes in one file. ConfigMaps hold 1 MiB at most; CRD bundles reach a few MiB.
pub const MAX_FILE_BYTES: usize = 16 << 20;
/// Documents in one file.
pub const MAX_DOCUMENTS: usize = 10_000;
/// Nesting depth of values. The deepest CRDs stay below 60.
pub const MAX_DEPTH: usize = 128;
/// Values in one file, including copies by aliases. Each takes about 100 bytes of memory. A 5 MiB CRD bundle has
/// 200,000.
pub const MAX_VALUES: usize = 1_000_000;
/// Lone dashes inside the brackets of a file. The file is parsed again for each.
pub const MAX_LONE_DASHES: usize = 8;
/// Values in one file that anchors and aliases copy, which cost nothing to write. People copy a few hundred.
pub const MAX_COPIED_VALUES: usize = 100_000;
/// Bytes in one file that anchors and aliases copy: at most the size limit of a file.
pub const MAX_COPIED_BYTES: usize = MAX_FILE_BYTES;
/// Memory of one value, excluding its text.
pub const VALUE_BYTES: usize = 100;
