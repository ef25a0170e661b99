//! ManifestWorks on a spoke: how their manifests are applied, what is reported back, and what is removed.

mod conditions;
mod decide;
mod executor;
mod feedback;
mod ignore;
mod inventory;
mod manifest;
mod status;

pub use decide::{Decision, Refusal, decide, refusal};
pub use executor::{Executor, Permissions};
pub use inventory::{Removal, inventory, removal};
pub use manifest::{Served, Wanted, read};
pub use status::{Attempt, Live, Seen, is_complete, was_applied, work_status};
