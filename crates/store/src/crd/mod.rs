//! Custom resources: serves the kinds of CustomResourceDefinitions.

mod check;
mod definition;
mod keywords;
mod rule_cost;
mod serve;
mod structural;

pub(super) use check::check;
pub(super) use definition::{complete, resource_id};
pub(super) use keywords::drop_unknown;

/// The finalizer that holds a definition until its objects are deleted.
pub(super) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
