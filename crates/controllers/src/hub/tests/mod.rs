//! Tests of several controllers of the hub.

mod custom_signer;
mod floods;
pub(crate) mod memory_hub;
mod unreadable;
