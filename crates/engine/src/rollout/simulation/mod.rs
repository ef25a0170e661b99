//! Simulations of rollouts. The input is a plain file; the output is a single decision or a whole trace.
//!
//! [`Scenario`] is the input of one step, and [`Outcomes`] defines the reactions of clusters. [`run`] plays both
//! against the engine until nothing more happens. The trace is printed as a table or drawn as SVG.

mod outcomes;
mod run;
mod scenario;
mod svg;
mod trace;

#[cfg(test)]
mod tests;

pub use outcomes::Outcomes;
pub use run::run;
pub use scenario::{Scenario, ScenarioError, strategy};
pub use trace::{Trace, decision_json, decision_table};
