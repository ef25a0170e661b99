//! The files of a report: the content of a status branch, for people and programs.
//!
//! The same fleet gives the same bytes: the report reads no clock, and its only times are those of changes.
//! Texts of spokes and users are redacted, escaped and capped. Clusters are counted, the worst few are named
//! on the pages, and the worst thousand have a file each.

mod alike;
mod commit_state;
mod config_repo;
mod exceptions;
mod files;
mod input;
mod limits;
mod message;
mod placement;
mod replica_set;
pub mod secrets;
mod snapshot;
mod timeline;
mod work;

pub use commit_state::{commit_state, is_news};
pub use config_repo::ConfigRepoState;
pub use files::{digest, files};
pub use input::{
    FleetReport, Rollout, Workload, WorkloadCluster, has_turn, last_change, quarantine_remedy, ready_since,
    version_of,
};
pub use message::message;
pub use placement::PlacementState;
pub use snapshot::{FLEET_SNAPSHOT, SNAPSHOT, SnapshotReader, decided, is_shown, snapshot};
pub use work::works;
