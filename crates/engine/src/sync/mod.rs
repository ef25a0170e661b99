//! Decides how the objects of a commit reach the hub, and which objects that left the repository are deleted.
//!
//! Five rules apply to every input:
//! - The inventory lists an object from before its creation until it is known to be gone.
//! - An object is deleted only if the inventory lists it, it has our annotation, and its kind was read.
//! - Deletions above the deletion budget wait for approval.
//! - One refused object refuses the whole commit, so the last good state stays applied. Before the first write,
//!   the API server validates every object that it can.
//! - The next stage waits until the objects of a stage are healthy, unless the user disables this.

mod argo;
mod arrivals;
mod budget;
mod comparisons;
mod content;
mod decide;
mod desired;
mod health;
mod ignore;
mod input;
mod inventory;
mod kubectl;
mod ownership;
mod plan;
mod problem;
mod prune;
mod uninstall;
mod writes;

#[cfg(test)]
mod tests;

pub use argo::{EndTracking, argo_application};
pub use budget::{Budget, DeletionHold, Recent};
pub use comparisons::Comparisons;
pub use content::{content, content_digest};
pub use desired::{ApplyRule, Desired, DesiredObject};
pub use ignore::IgnoreRule;
pub use input::{Claimant, SyncInput, SyncPolicy, Takeover, Withheld};
pub use inventory::{Inventory, ObjectId, digest_of_paths, kinds, owner, recorded, requested};
pub use kubectl::ManagedFields;
pub use ownership::{is_marked, is_secret};
pub use plan::plan;
pub use problem::{Problem, summary};
pub use prune::release;
pub use uninstall::Uninstall;
pub use writes::{Apply, Correction, Deletion, HandOver, SyncPlan, Terminating, Unhealthy};
