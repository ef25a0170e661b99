//! Tests of several controllers of the hub.

mod custom_signer;
mod floods;
mod kept;
mod memory_hub;
mod unreadable;
