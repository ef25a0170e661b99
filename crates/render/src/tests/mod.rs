//! Tests of whole renderings.

mod budget;
mod golden;
mod memo;
mod resources;
