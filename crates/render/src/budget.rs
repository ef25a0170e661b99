//! The memory that one rendering may use, spent before it is allocated.

use std::cell::Cell;

use super::decode::Result;
use super::error::{Reason, RenderError};
use super::limits::MAX_RENDER_BYTES;
use object::Location;

/// The bytes that a rendering may still allocate for texts and values, and a check whether it was cancelled.
pub(super) struct MemoryBudget<'a> {
    left: Cell<usize>,
    is_cancelled: &'a dyn Fn() -> bool,
}

impl<'a> MemoryBudget<'a> {
    /// Returns the budget of a new rendering. `is_cancelled` is called at every spending.
    pub(super) fn new(is_cancelled: &'a dyn Fn() -> bool) -> Self {
        Self { left: Cell::new(MAX_RENDER_BYTES), is_cancelled }
    }

    /// Returns the bytes that are left.
    pub(super) fn left(&self) -> usize {
        self.left.get()
    }

    /// Spends bytes. Freed bytes are not returned, so the budget bounds the work of a rendering too.
    ///
    /// # Errors
    /// The budget is exceeded, or the rendering is cancelled. The error knows no file yet.
    pub(super) fn spend(&self, bytes: usize) -> Result<()> {
        if (self.is_cancelled)() {
            return Err(Box::new(RenderError::new(Reason::Cancelled, "", "the rendering was cancelled")));
        }
        let Some(left) = self.left.get().checked_sub(bytes) else {
            let message = format!("the overlay takes more than {} MiB of memory", MAX_RENDER_BYTES >> 20);
            let hint = "a file, patch or replacement multiplies values; divide the overlay";
            return Err(Box::new(RenderError::new(Reason::TooLarge, "", message).hint(hint)));
        };
        self.left.set(left);
        Ok(())
    }

    /// Calls [`MemoryBudget::spend`] for something at a place, which the error names.
    ///
    /// # Errors
    /// As [`MemoryBudget::spend`].
    pub(super) fn spend_at(&self, location: &Location, bytes: usize) -> Result<()> {
        self.spend(bytes).map_err(|error| {
            Box::new(RenderError { file: location.file.clone(), ..*error }.line(location.line))
        })
    }
}
