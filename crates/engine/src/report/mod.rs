//! The files of a report: what a status branch holds for people and programs.
//!
//! The same fleet gives the same bytes: nothing is read from a clock, and the only times are those at which
//! something changed. Texts of spokes and users are redacted, escaped and capped. Clusters are counted, and
//! only the worst few are named.

mod facts;
mod files;

pub use facts::{AddOn, Cluster, Fleet, Rollout, last_change, version_of};
pub use files::{digest, files, message};
