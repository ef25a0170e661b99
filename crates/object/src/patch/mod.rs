//! Patches: documents that describe a change to another document.

mod strategic;

pub use strategic::{DELETE_FROM, RETAIN_KEYS, SET_ORDER, StrategicError, strategic_merge};
