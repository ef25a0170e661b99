//! Tests the manager's decisions as data.

mod fixture;
mod hosting;

pub(crate) use fixture::{Demo, NOW, World, config, message, reference, status, variables, words};
