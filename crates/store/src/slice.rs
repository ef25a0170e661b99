//! Splits long work on many objects into slices, between which others get their turn.

use object::Object;

use super::collection::weight_of;

/// The size of a slice, in bytes of objects: about 20 ms. A slice has at least one object.
const BYTES: usize = 4 << 20;
/// The minimum number of bytes to count for an object, for the work of inspecting it.
const LEAST: usize = 4 << 10;
/// The number of bytes to count for a skipped object.
const LITTLE: usize = 16;

/// The remaining part of a slice.
#[derive(Debug)]
pub(super) struct Slice {
    bytes: usize,
}

impl Default for Slice {
    fn default() -> Self {
        Self { bytes: BYTES }
    }
}

impl Slice {
    /// Returns a slice that never ends.
    pub(super) fn unlimited() -> Self {
        Self { bytes: usize::MAX }
    }

    /// Returns a slice of `bytes`.
    pub(super) fn new(bytes: usize) -> Self {
        Self { bytes }
    }

    /// Counts the work on an object.
    pub(super) fn touched(&mut self, object: &Object) {
        self.bytes = self.bytes.saturating_sub(weight_of(object).max(LEAST));
    }

    /// Counts objects whose content was not read.
    pub(super) fn visited(&mut self, count: usize) {
        self.bytes = self.bytes.saturating_sub(count * LEAST);
    }

    /// Counts a skipped object.
    pub(super) fn passed_over(&mut self) {
        self.bytes = self.bytes.saturating_sub(LITTLE);
    }

    pub(super) fn is_over(&self) -> bool {
        self.bytes == 0
    }
}
