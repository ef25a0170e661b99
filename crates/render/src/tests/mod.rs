//! Tests of whole renderings.

mod budget;
mod charts;
mod golden;
mod memo;
mod resources;
