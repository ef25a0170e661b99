//! Tests of several controllers of the hub.

mod custom_signer;
mod floods;
mod memory_hub;
mod unreadable;
