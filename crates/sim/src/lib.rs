//! A world to try things in: what clusters would do, without clusters.

#[cfg(test)]
mod chain;
mod execute;
#[cfg(test)]
mod placements;
mod process;
pub mod workload;
mod world;

pub use execute::Branches;
pub use process::Faults;
pub use world::{Livelock, Spoke, World, run_workloads};
