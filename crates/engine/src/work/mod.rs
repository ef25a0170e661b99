//! Works on a spoke: what of them is applied and how, what is reported back, what is left to remove.

mod feedback;
mod inventory;
mod manifest;
mod status;

pub use feedback::feedback;
pub use inventory::{Inventory, Removal, inventory, removal};
pub use manifest::{Decision, Wanted, decide, read};
pub use status::{Seen, was_applied, work_status};
