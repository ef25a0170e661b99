//! Custom resources: makes served resources of a CustomResourceDefinition.

mod check;
mod definition;
mod keywords;
mod rule_cost;
mod serve;
mod structural;

pub(super) use check::check;
pub(super) use definition::{complete, resource_id};
pub(super) use keywords::drop_unknown;

/// Held by definitions until their objects are gone.
pub(super) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
