//! The gate of a commit, which says how far it goes and why it goes no further.

use std::sync::Arc;

use api::gitops::v1alpha1::HeldChanges;
use engine::rollout::ApplyWait;
use engine::sync::Problem;
use object::Key;
use reconcile::{ReadError, ReadErrorReason};

/// The point that a commit reaches, with the reason that it goes no further.
#[derive(Clone, Debug)]
pub(super) enum Gate {
    /// A read failed, so nothing is decided or reported.
    Failed(ReadError),
    /// `spec.suspend` stops everything.
    Suspended,
    /// The ConfigRepo has no identity for its writes.
    NotAllowed(Vec<Problem>),
    /// No commit has been fetched yet.
    NotFetched,
    /// The commit, or another one that decides about it, is being rendered.
    Rendering,
    /// The remote charts of the commit are fetched first.
    Fetching,
    /// Charts of the commit draw random values for these releases first.
    Drawing(Arc<Vec<Key>>),
    /// The operator has not read something on the hub yet.
    Reading(String),
    /// The operator may not read kinds of the commit.
    Forbidden(Vec<Problem>),
    /// The commit waits for other ConfigRepos, which form this cycle.
    DependencyCycle(Vec<String>),
    /// The commit waits for another ConfigRepo, for this reason.
    DependencyNotReady(Key, String),
    /// The spec, the commit or its objects have mistakes.
    Refused(Vec<Problem>),
    /// The commit waits until a person approves its plan. The changes are unknown if the commit has problems.
    NotApproved { hash: String, changes: Option<Box<HeldChanges>> },
    /// The freeze or apply windows are invalid.
    InvalidWindows(Vec<Problem>),
    /// The commit waits for the end of a freeze window or the start of an apply window.
    Frozen(ApplyWait),
    /// The commit is applied, or observed.
    Open,
}

impl From<ReadError> for Gate {
    fn from(error: ReadError) -> Self {
        let is_pending = error.reason == ReadErrorReason::Pending;
        if is_pending { Self::Rendering } else { Self::Failed(error) }
    }
}
