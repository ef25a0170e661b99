//! Rollouts tried on paper: a plain file in, the engine's answer or a whole trace out.
//!
//! [`Scenario`] is the input of one step, [`Outcomes`] says what would become of clusters, [`run`] plays both
//! against the engine until nothing happens any more. The trace is printed as a table for people and tests,
//! or drawn as SVG.

mod outcomes;
mod run;
mod scenario;
mod svg;
mod trace;

#[cfg(test)]
mod tests;

pub use outcomes::Outcomes;
pub use run::run;
pub use scenario::{Scenario, Unreadable};
pub use trace::{Trace, decision_json, decision_table};
