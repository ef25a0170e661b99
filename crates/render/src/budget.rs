//! The memory budget of a rendering, spent before the memory is allocated.

use std::cell::Cell;

use super::decode::Result;
use super::error::{Reason, RenderError};
use super::limits::MAX_RENDER_BYTES;
use object::Location;

/// The bytes that a rendering may still allocate for texts and values. Also checks for cancellation.
pub(super) struct MemoryBudget<'a> {
    left: Cell<usize>,
    is_cancelled: &'a dyn Fn() -> bool,
}

impl<'a> MemoryBudget<'a> {
    /// Returns the budget of a new rendering. `is_cancelled` is called on every [`MemoryBudget::spend`].
    pub(super) fn new(is_cancelled: &'a dyn Fn() -> bool) -> Self {
        Self { left: Cell::new(MAX_RENDER_BYTES), is_cancelled }
    }

    /// Returns the remaining bytes.
    pub(super) fn left(&self) -> usize {
        self.left.get()
    }

    /// Counts the bytes that earlier directories of the rendering have spent.
    pub(super) fn has_spent(&self, bytes: usize) {
        self.left.set(self.left.get().saturating_sub(bytes));
    }

    /// Spends bytes. Freeing memory does not refund them, so the budget also bounds the work of a rendering.
    ///
    /// # Errors
    /// Fails if the budget is exceeded or the rendering is canceled. The error has no file yet.
    pub(super) fn spend(&self, bytes: usize) -> Result<()> {
        if (self.is_cancelled)() {
            return Err(Box::new(RenderError::new(Reason::Cancelled, "", "the rendering was canceled")));
        }
        let Some(left) = self.left.get().checked_sub(bytes) else {
            let message =
                format!("rendering the overlay exceeds the memory limit of {} MiB", MAX_RENDER_BYTES >> 20);
            let hint = "a file, patch or replacement multiplies values; split the overlay";
            return Err(Box::new(RenderError::new(Reason::TooLarge, "", message).hint(hint)));
        };
        self.left.set(left);
        Ok(())
    }

    /// Calls [`MemoryBudget::spend`] and adds a location to the error.
    ///
    /// # Errors
    /// See [`MemoryBudget::spend`].
    pub(super) fn spend_at(&self, location: &Location, bytes: usize) -> Result<()> {
        self.spend(bytes).map_err(|error| {
            Box::new(RenderError { file: location.file.clone(), ..*error }.line(location.line))
        })
    }
}
