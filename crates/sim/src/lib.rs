//! Runs production code in a simulated world of stores in virtual time: a hub, its spokes, their processes, and an
//! invariant checker.

mod check;
mod cluster;
mod execute;
pub mod history;
mod lookup;
pub mod preview;
mod process;
mod user;
pub mod workload;
mod world;

pub use check::{Invariant, InvariantViolation, Write};
pub use cluster::{Spoke, run_workloads};
pub use execute::{Branches, Execute, Hear, Servers, execute};
pub use process::Faults;
pub use world::{Setup, World};
