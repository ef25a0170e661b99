//! Limits of the packs that servers send. libgit2 has them, and our reader of packs checks what libgit2 does
//! not.

/// Most bytes of a file that is read: etcd takes objects of 1.5 MiB. Servers are asked to leave out larger ones.
pub(super) const MAX_FILE_BYTES: usize = 8 << 20;

/// Most bytes of an object that libgit2 makes from a delta: four times the largest file that is read, because
/// a history may hold larger files than its tip. A delta of a few kilobytes can make an object of 2 GiB.
pub(super) const MAX_OBJECT_BYTES: usize = 4 * MAX_FILE_BYTES;

/// Most objects of a pack. The index of a pack costs about 100 bytes of memory for each.
pub(super) const MAX_PACK_OBJECTS: usize = 2_000_000;
