//! The placement scheduler: selects the clusters of a Placement and decides the PlacementDecisions that publish
//! them.
//!
//! A scheduling cycle has five stages, each a pure function in a separate file:
//!
//! | stage | file | question |
//! |---|---|---|
//! | filter | [`filter`] | which clusters are feasible? |
//! | prioritize | `rank`, `prioritizer` | in which order? |
//! | select | `select`, `spread`, `removal` | which are selected, and which leave? |
//! | group | `layout` | which cluster is in which slice of which decision group? |
//! | publish | [`publish`], `status`, `events` | which writes are needed? |
//!
//! [`schedule`] runs all stages over all clusters. An [`IncrementalSchedule`] caches the results of the first
//! three stages for one placement and computes only what changed. It must give the same results, and the tests
//! compare the two.
//!
//! The results match OCM's, except where those are unsafe; see `docs/design/placement.md`.

mod changes;
pub mod cluster_secret;
mod decide;
mod decision_list;
mod events;
pub mod explain;
pub mod filter;
pub mod fleet;
mod incremental;
mod input;
mod layout;
pub mod policy;
mod prioritizer;
pub mod publish;
mod published;
mod rank;
mod removal;
mod schedule;
mod seen;
mod select;
pub mod sets;
mod spread;
mod status;
#[cfg(test)]
mod tests;

pub use decision_list::{DecisionEntry, decision_list};
pub use fleet::Fleet;
pub use incremental::IncrementalSchedule;
pub use input::{MAX_STEPS, ScheduleInput};
pub use policy::Misconfigured;
pub use schedule::{PlacementEvent, Schedule, schedule};
pub use seen::SeenCluster;
