//! The activities of a shell for a key, reported to an observer, such as one that makes traces of them.

use std::sync::Arc;

use jiff::Timestamp;

use object::Key;
use reconcile::{Act, Caches, Outcome, ReconcileResult};

/// Something that a shell has done for a key.
pub struct Activity<'a> {
    /// The caches after it.
    pub caches: &'a Caches,
    /// When it began.
    pub began: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// The kind of the activity.
    pub kind: ActivityKind<'a>,
}

/// The kinds of activities.
pub enum ActivityKind<'a> {
    /// A computation for a decision, such as a rendering.
    Computed {
        /// The controller that asked for it.
        controller: &'static str,
        /// The key that it was asked for.
        key: &'a Key,
        /// Its name.
        name: &'static str,
    },
    /// A write was attempted.
    Acted {
        /// The write.
        act: &'a Act,
        /// Its outcome.
        outcome: &'a Outcome,
    },
    /// A reconciliation ended. Its writes were observed before.
    Reconciled(&'a ReconcileResult),
}

/// Takes the activities of a shell. It is called on the threads that do the work, so it must return at once.
pub type ObserveFn = Arc<dyn Fn(Activity<'_>) + Send + Sync>;
