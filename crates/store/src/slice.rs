//! A part of a long work on many objects, after which others get their turn.

use object::Object;

use super::collection::weight_of;

/// Bytes of objects in a slice: about 20 ms, and at least one object.
const BYTES: usize = 4 << 20;
/// The least number of bytes that count for an object: the work of looking at one.
const LEAST: usize = 4 << 10;
/// Bytes that count for an object that is passed over.
const LITTLE: usize = 16;

/// The rest of a slice.
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
    /// Returns a slice without an end.
    pub(super) fn unlimited() -> Self {
        Self { bytes: usize::MAX }
    }

    /// Returns a slice of so many bytes.
    pub(super) fn of(bytes: usize) -> Self {
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

    /// Counts an object that does not matter.
    pub(super) fn passed_over(&mut self) {
        self.bytes = self.bytes.saturating_sub(LITTLE);
    }

    pub(super) fn is_over(&self) -> bool {
        self.bytes == 0
    }
}
