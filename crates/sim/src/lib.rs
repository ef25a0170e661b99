//! Runs production code in a simulated world of stores in virtual time: a hub, its spokes, their processes, and an
//! invariant checker. Only tests and benchmarks depend on this crate.

mod check;
mod cluster;
pub mod history;
mod process;
mod sites;
mod user;
mod world;

pub use check::{Invariant, InvariantViolation, Write};
pub use cluster::Spoke;
pub use preview::{Branches, Servers, execute, workload};
pub use sites::{Execute, Faults, Hear};
pub use world::{Setup, World};
