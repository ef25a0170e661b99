//! The engines: pure functions from explicit inputs to decisions. Wire types are parsed once, at an engine's
//! door.

pub mod addon;
mod applier;
#[cfg(test)]
#[path = "../../../tests/golden.rs"]
mod golden;
pub mod order;
pub mod placement;
pub mod registration;
pub mod replica_set;
pub mod report;
pub mod rollout;
pub mod sync;
pub mod work;
