//! Patches: documents that say how another document changes.

mod strategic;

pub use strategic::{StrategicError, strategic_merge};
