//! What happened, as files for people and programs: the content of a status branch.
//!
//! The same fleet gives the same bytes: nothing is read from a clock, and the only times are those at which something changed. What
//! spokes and users said is redacted, escaped and capped. Clusters are counted, and only the worst few are named.

mod facts;
mod files;

pub use facts::{AddOn, Cluster, Fleet, Standing};
pub use files::{digest, files, message};
