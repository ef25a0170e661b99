//! The seed of random values.

use std::fmt;

use jiff::Timestamp;

/// The secret from which the random values of a repository follow, and the time at which it was drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed {
    /// The secret, which is never printed.
    pub bytes: [u8; 32],
    /// When it was drawn.
    pub time: Timestamp,
}

impl Seed {
    /// Stands for a seed that is not known.
    pub const PLACEHOLDER: Self = Self { bytes: [0; 32], time: Timestamp::UNIX_EPOCH };
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seed").field("time", &self.time).finish_non_exhaustive()
    }
}
