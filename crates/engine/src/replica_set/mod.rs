//! ManifestWorkReplicaSets: one work on each cluster that their placements select.

mod health;
mod status;
mod template;
#[cfg(test)]
mod tests;
mod work;

pub use health::SuccessNeeds;
pub use status::{PlacementProgress, ReportedErrors, WorkCounts, status};
pub use template::{content, hash, snapshot, snapshot_spec};
pub use work::{
    DesiredWork, Recovery, SuccessRule, WorkRecord, assigned, cluster, is_owned, is_recorded, name,
    owner_label, report, unchanged,
};
