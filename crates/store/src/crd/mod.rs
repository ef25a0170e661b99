//! Custom resources: serves the kinds of CustomResourceDefinitions.

mod check;
mod definition;
mod rule_cost;
mod serve;
mod structural;

pub(super) use check::check;
pub(super) use definition::{complete, resource_id};
