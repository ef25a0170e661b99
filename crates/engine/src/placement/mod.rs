//! Which clusters a placement selects, in which groups, and how the decisions are published.
//!
//! [`schedule`] is a function of its [`Input`] and the time. A [`Standing`] gives the same answers and remembers what it found out
//! about every cluster, so that the next answer costs only as much as has changed.
//!
//! The results are those of Open Cluster Management, except where those are unsafe: see `docs/design/placement.md`.

pub mod explain;
pub mod filter;
pub mod fleet;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod harness;
pub mod layout;
#[cfg(test)]
mod meddling;
pub mod policy;
pub mod prioritizer;
#[cfg(test)]
mod properties;
pub mod publish;
mod ranking;
mod schedule;
pub mod select;
pub mod sets;
mod standing;
#[cfg(test)]
mod tests;

pub use fleet::Fleet;
pub use schedule::{Event, Input, LEAVING, SETTLE, Schedule, schedule};
pub use standing::Standing;

/// A spec that cannot be followed. The decisions stay as they are until it can.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{plugin}:{message}")]
pub struct Misconfigured {
    /// The filter that refused it, as Open Cluster Management names it; empty for everything else.
    pub plugin: &'static str,
    /// What is wrong.
    pub message: String,
}

impl Misconfigured {
    /// What a filter, or nobody in particular, refuses.
    pub fn new(plugin: &'static str, message: impl Into<String>) -> Self {
        Self { plugin, message: message.into() }
    }
}
