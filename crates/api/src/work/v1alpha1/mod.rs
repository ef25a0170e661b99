//! Works for all clusters of placements.

mod manifest_work_replica_set;

pub use manifest_work_replica_set::{
    CascadeDeletionPolicy, LocalPlacementReference, ManifestWorkReplicaSet, ManifestWorkReplicaSetSpec,
    ManifestWorkReplicaSetStatus, ManifestWorkReplicaSetSummary, PlacementSummary,
};
