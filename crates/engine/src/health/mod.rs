//! The one definition of healthy, in progress and failed, for every kind of object.
//!
//! [`table`] has it as CEL expressions, because agents evaluate them: those of Wheelwright and of OCM, on
//! objects that the hub never sees. Stages of a ConfigRepo evaluate the same expressions on the hub, and
//! add-ons do so on what their agents feed back. See docs/design/rollout-health.md.

mod table;
mod verdict;

pub(crate) use table::row;
pub use verdict::ObjectHealth;
