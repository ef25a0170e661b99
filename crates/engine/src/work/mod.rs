//! ManifestWorks on a spoke: applies their manifests, reports their status, and removes objects.

mod cause;
mod conditions;
mod decide;
mod decision;
mod executor;
mod feedback;
pub(crate) mod health;
mod ignore;
mod inventory;
mod jq;
mod manifest;
mod merge;
mod permissions;
pub mod pods;
mod rules;
mod status;
#[cfg(test)]
mod tests;

pub(crate) use cause::{cause, culprit, rejection};
pub use cause::{error, pod_trouble, trouble};
pub use decide::{decide, refusal, take_over};
pub use decision::{ApplyDecision, ApplyRefusal};
pub use executor::Executor;
pub use inventory::{ObjectRemoval, inventory, removal};
pub(crate) use manifest::applies;
pub use manifest::{Served, Wanted, manifests_at, read, stays};
pub use permissions::Permissions;
pub use rules::rules;
pub use status::{Attempt, Live, ManifestResult, Pods, is_complete, is_contested, was_applied, work_status};
