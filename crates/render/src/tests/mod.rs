//! Tests of whole renderings.

mod budget;
mod charts;
mod decryption;
mod directories;
mod golden;
mod memo;
mod resources;
mod wrapped;
