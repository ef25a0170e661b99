//! Tests of whole fleets in the simulator.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test panics where something is not as it should be; clippy allows it in functions marked as tests only"
)]

mod addon_hazards;
mod addon_progress;
mod addons;
mod argo;
mod argo_cd;
mod argo_health;
mod argo_pull;
mod argo_secrets;
mod broken;
mod bugs;
mod claims;
mod clocks;
mod commit_statuses;
mod crashes;
mod deletions;
mod emptied;
mod events;
mod fixtures;
#[path = "../../../../tests/golden.rs"]
mod golden;
mod histories;
mod hosted;
mod incidents;
mod late;
mod liveness;
mod loosening;
mod manifests;
mod merges;
mod notifications;
mod ownership;
mod permissions;
mod placements;
mod pods;
mod policies;
mod preview_content;
mod preview_looks;
mod preview_policies;
mod preview_reports;
mod preview_rollouts;
mod previews;
mod refused;
mod relapses;
mod removals;
mod replica_set_health;
mod replica_set_placements;
mod replica_sets;
mod reports;
mod rollouts;
mod sealed;
mod templates;
mod tokens;
mod uncollected;
mod undo;
mod unreadable;
mod webhooks;
mod works;

/// A simulated fleet allocates and drops many small values.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
