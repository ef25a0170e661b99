//! Tests the manager's decisions as data.

mod fixture;

pub(crate) use fixture::{Demo, NOW, World, config, message, reference, status, variables, words};
