//! Tests that involve several controllers of the hub.

mod addon_deletion;
mod addon_registration;
mod addon_removal;
mod custom_signer;
mod floods;
mod kept;
pub(crate) mod memory_hub;
mod removal_order;
mod undecided;
mod unreadable;
mod wakes;
pub(crate) mod work;
