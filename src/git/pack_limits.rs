//! Limits of the packs that servers send. libgit2 has them, and our reader of packs checks what libgit2 does
//! not.

/// Most bytes of an object that libgit2 makes from a delta: four times the largest file that is read, because
/// a history may hold larger files than its tip. A delta of a few kilobytes can make an object of 2 GiB.
pub(super) const MAX_OBJECT_BYTES: usize = 32 << 20;

/// Most objects of a pack. The index of a pack costs about 100 bytes of memory for each.
pub(super) const MAX_PACK_OBJECTS: usize = 2_000_000;
