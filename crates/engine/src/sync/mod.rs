//! From the objects of a commit to writes on the hub, and to deletions of what left the repository.
//!
//! Rules that hold whatever the input: an object is in the inventory from before it is created until it is known to be gone;
//! nothing is deleted that is not both in the inventory and marked as ours, or whose kind could not be read; what is over the
//! deletion budget waits for a person; one refused object refuses the whole commit, so that the last good state stays applied.

mod budget;
mod desired;
mod inventory;
mod order;
mod ownership;
mod plan;

pub use budget::{Budget, Held};
pub use desired::{Desired, Rendered, desired, digest, summary};
pub use inventory::{Id, Inventory};
pub use order::stage;
pub use ownership::{Takeover, unmarked};
pub use plan::{Input, Policy, Sync, homes, is_covered, plan};

/// Why an object of a commit is not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// CamelCase word for conditions.
    pub reason: &'static str,
    /// The object, with what is wrong and what to do.
    pub message: String,
    /// File and line it came from; empty where unknown.
    pub origin: String,
}

/// `message (origin)`.
impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.origin.as_str() {
            "" => write!(f, "{}", self.message),
            origin => write!(f, "{} ({origin})", self.message),
        }
    }
}
