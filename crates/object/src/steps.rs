//! Steps that the evaluation of an expression from outside may take.
//!
//! A step is a value that is visited, or 16 bytes of a text that is read, compared or returned.

/// Steps that suffice for the expressions of a work: some tens of milliseconds, and at most 10 MiB.
pub const MAX_STEPS: usize = 100_000;

/// The steps that are left.
#[derive(Debug)]
pub struct StepsLeft(pub usize);

/// There are fewer steps left than are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it takes too many steps, with the other expressions beside it")]
pub struct OutOfSteps;

impl StepsLeft {
    /// Takes steps.
    ///
    /// # Errors
    /// [`OutOfSteps`]
    pub fn take(&mut self, steps: usize) -> Result<(), OutOfSteps> {
        self.0 = self.0.checked_sub(steps).ok_or(OutOfSteps)?;
        Ok(())
    }

    /// Takes the steps for a text of so many bytes.
    ///
    /// # Errors
    /// [`OutOfSteps`]
    pub fn take_text(&mut self, bytes: usize) -> Result<(), OutOfSteps> {
        self.take(1 + bytes / 16)
    }
}
