//! ManifestWorks on a spoke: how their manifests are applied, what is reported back, and what is removed.

mod decide;
mod feedback;
mod inventory;
mod manifest;
mod status;

pub use decide::{Decision, decide, refusal};
pub use inventory::{Inventory, Removal, inventory, removal};
pub use manifest::{Wanted, read};
pub use status::{Seen, was_applied, work_status};
