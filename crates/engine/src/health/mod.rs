//! The single definition of healthy, in progress and failed, for every kind of object.
//!
//! [`table`] defines them as CEL expressions, because agents of Wheelwright and OCM evaluate them on objects
//! that the hub never sees. Stages of a ConfigRepo evaluate the same expressions on the hub, and add-ons
//! evaluate them on feedback from their agents. See docs/design/rollout-health.md.

mod table;
mod verdict;

pub(crate) use table::row;
pub use verdict::ObjectHealth;
