//! The engines: pure functions from explicit inputs to decisions. Each engine parses the wire types once, when
//! it reads its input.

pub mod addon;
mod applier;
pub mod changes;
pub mod cluster_manager;
#[cfg(test)]
#[path = "../../../tests/fuzz/driver.rs"]
mod fuzz;
#[cfg(test)]
#[path = "../../../tests/golden.rs"]
mod golden;
pub mod health;
pub mod installation;
pub mod klusterlet;
pub mod order;
pub mod placement;
pub mod plural;
pub mod registration;
pub mod replica_set;
pub mod report;
pub mod resource;
pub mod rollout;
mod svg;
pub mod sync;
pub mod work;
