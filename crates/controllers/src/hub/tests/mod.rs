//! Tests that involve several controllers of the hub.

mod addon_deletion;
mod addon_registration;
mod addon_removal;
mod cached_state;
mod custom_signer;
mod floods;
pub(crate) mod memory_hub;
mod removal_order;
mod undecided;
mod unreadable;
mod wakes;
pub(crate) mod work;
