//! Limits the steps to evaluate untrusted expressions.
//!
//! A step is a visited value, or 16 bytes of text that is read, compared or returned.

/// The steps for all expressions of a work: a few tens of milliseconds, and at most 10 MiB.
pub const MAX_STEPS: usize = 100_000;

/// The remaining steps.
#[derive(Debug)]
pub struct StepsLeft(pub usize);

/// The error when too few steps remain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it takes too many steps, together with the other expressions")]
pub struct OutOfSteps;

impl StepsLeft {
    /// Takes steps.
    ///
    /// # Errors
    /// Returns [`OutOfSteps`] if too few steps remain.
    pub fn take(&mut self, steps: usize) -> Result<(), OutOfSteps> {
        self.0 = self.0.checked_sub(steps).ok_or(OutOfSteps)?;
        Ok(())
    }

    /// Takes the steps for a text of `bytes` bytes.
    ///
    /// # Errors
    /// Returns [`OutOfSteps`] if too few steps remain.
    pub fn take_text(&mut self, bytes: usize) -> Result<(), OutOfSteps> {
        self.take(1 + bytes / 16)
    }
}
