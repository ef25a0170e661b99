//! ManifestWorks on a spoke: applies their manifests, reports their status, and removes objects.

mod conditions;
mod decide;
mod executor;
mod feedback;
mod ignore;
mod inventory;
mod jq;
mod manifest;
mod merge;
mod rules;
mod status;
#[cfg(test)]
mod tests;

pub use decide::{Decision, Refusal, decide, refusal, take_over};
pub use executor::{Executor, Permissions};
pub use inventory::{Removal, inventory, removal};
pub use manifest::{Served, Wanted, read, stays};
pub use rules::rules;
pub use status::{Attempt, Live, ManifestResult, is_complete, was_applied, work_status};
