//! Patches: documents that describe a change of another document.

mod strategic;

pub use strategic::{StrategicError, strategic_merge};
