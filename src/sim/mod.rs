//! A world to try things in: what clusters would do, without clusters.

#[cfg(test)]
mod chain;
mod execute;
pub mod fleet;
#[cfg(test)]
mod placements;
mod process;
mod random;
pub mod rollout;
pub mod workload;
mod world;

pub use execute::Branches;
pub use process::Faults;
pub use random::Random;
pub use world::{Livelock, Spoke, World, run_workloads};
