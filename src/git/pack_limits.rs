//! Limits on packs from servers. libgit2 enforces some of them, and our pack reader the rest.

/// The maximum size of a file: etcd accepts objects of 1.5 MiB. Servers are asked to omit larger files.
pub(super) const MAX_FILE_BYTES: usize = 8 << 20;

/// The maximum size of an object that libgit2 builds from a delta: four times the largest file, because the
/// history may have larger files than the tip. A delta of a few kilobytes can produce an object of 2 GiB.
pub(super) const MAX_OBJECT_BYTES: usize = 4 * MAX_FILE_BYTES;

/// The maximum number of objects in a pack. The index needs about 100 bytes of memory for each.
pub(super) const MAX_PACK_OBJECTS: usize = 2_000_000;
