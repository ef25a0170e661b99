//! Previews commits: predicts their effects on a hub and its fleet before they are merged.
//!
//! A preview loads the objects of a hub into a store, hands the commit to production's controllers, and lets time
//! pass. It makes no decisions itself: its result is the difference between the objects before and after. So it
//! cannot disagree with the operator about what a commit means.
//!
//! A preview has no clusters, so it assumes their behavior: a cluster that responds applies every change and
//! succeeds after a fixed time ([`ProposedCommit::succeeds_after`]), an unreachable cluster stays unreachable, and
//! a person grants an approval as soon as a rollout asks for it. Deletions over the budget of the ConfigRepo are
//! not granted. A preview sends no request to an API server, so it knows neither permissions nor admission.
//!
//! The simulator of the tests runs controllers on stores, too, with the same watches, lookups, writes and workloads.

mod changes;
mod definitions;
mod error;
mod execute;
mod fleet;
mod left_out;
mod lookup;
mod people;
mod play;
mod reported;
mod results;
mod runner;
mod scope;
mod snapshot;
mod spokes;
mod timeline;
mod watch;
pub mod workload;

pub use definitions::install;
pub use error::PreviewError;
pub use execute::{Branches, Servers, execute, unavailable};
pub use fleet::PreviewWorkload;
pub use left_out::LeftOut;
pub use play::{ProposedCommit, of_same_source, preview};
pub use reported::{ReportedHub, of_report, same_as_applied, with_commits};
pub use results::{
    ApprovalRequest, Batch, ChangeType, CommitWindow, EarlierRollout, HeldObjects, HeldRemoval,
    IncompleteRollout, ObjectChange, PlacementPreview, Preview, RepoPreview, RolloutChanges, RolloutWait,
    Verdict, WorkChange, WorkloadPreview,
};
pub use scope::PreviewScope;
pub use snapshot::HubSnapshot;
pub use watch::read;
