//! The files of a report, which form the content of a status branch, for people and programs.
//!
//! The same fleet always produces the same bytes: the report reads no clock, and contains only times of changes.
//! Text from spokes and users is redacted, escaped and truncated. Clusters are counted. The pages name only the
//! worst few, and the worst thousand have one file each.

mod alike;
mod commit_state;
mod config_repo;
mod exceptions;
mod files;
mod input;
mod limits;
mod link;
mod message;
mod notification;
mod placement;
mod replica_set;
pub mod secrets;
mod snapshot;
mod timeline;
mod work;

pub use commit_state::{commit_state, is_news};
pub use config_repo::ConfigRepoState;
pub use exceptions::cluster_file;
pub use files::{digest, files};
pub use input::{
    FleetReport, Rollout, Workload, WorkloadCluster, has_turn, last_change, quarantine_remedy, ready_since,
    version_of,
};
pub use link::{commit_link, history_link, repository_link};
pub use message::message;
pub use notification::{Message, Situation, problem, recovery};
pub use placement::PlacementState;
pub use snapshot::{FLEET_SNAPSHOT, SNAPSHOT, SnapshotReader, decided, is_shown, snapshot};
pub use work::works;
