use std::fmt;

use jiff::Timestamp;

/// The secret that determines the random values of a repository, and the time when it was drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed {
    /// The secret, which is never printed.
    pub bytes: [u8; 32],
    /// The time when it was drawn.
    pub time: Timestamp,
}

impl Seed {
    /// A placeholder for an unknown seed.
    pub const PLACEHOLDER: Self = Self { bytes: [0; 32], time: Timestamp::UNIX_EPOCH };
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seed").field("time", &self.time).finish_non_exhaustive()
    }
}
