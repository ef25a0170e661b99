//! Decides how the objects of a commit reach the hub, and which objects that left the repository are deleted.
//!
//! Five rules hold for every input:
//! - The inventory lists an object before it is created and until it is known to be gone.
//! - An object is deleted only if the inventory lists it, it carries our annotation, and its kind was read.
//! - Deletions above the deletion budget wait for approval.
//! - One refused object refuses the whole commit, so the last good state stays applied.
//! - The next stage waits until the objects of a stage are healthy, unless the user does not wait for health.

mod argo;
mod budget;
mod comparisons;
mod decide;
mod desired;
mod health;
mod ignore;
mod inventory;
mod kubectl;
mod ownership;
mod plan;
mod problem;
mod prune;
#[cfg(test)]
mod tests;

pub use argo::EndTracking;
pub use budget::{Budget, DeletionHold, Recent};
pub use comparisons::Comparisons;
pub use desired::{ApplyRule, Desired, DesiredObject};
pub use health::ObjectHealth;
pub use ignore::IgnoreRule;
pub use inventory::{Inventory, ObjectId, digest_of_paths, kinds, owner, recorded, requested};
pub use kubectl::ManagedFields;
pub use ownership::{Takeover, is_secret};
pub use plan::{
    Apply, Claimant, Correction, SyncInput, SyncPlan, SyncPolicy, Terminating, Unhealthy, Withheld, plan,
};
pub use problem::{Problem, summary};
pub use prune::{Deletion, HandOver};
