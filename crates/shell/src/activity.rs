//! Reports what a shell does for a key to an observer that, for example, makes traces.

use std::sync::Arc;

use jiff::Timestamp;

use object::Key;
use reconcile::{Act, Caches, Outcome, ReconcileResult};

/// Work that a shell has done for a key.
pub struct Activity<'a> {
    /// The caches after the work.
    pub caches: &'a Caches,
    /// When the work began.
    pub began: Timestamp,
    /// When the work ended.
    pub ended: Timestamp,
    /// The kind of the activity.
    pub kind: ActivityKind<'a>,
}

/// The kinds of activities.
pub enum ActivityKind<'a> {
    /// A computation for a decision, such as a rendering.
    Computed {
        /// The controller that requested it.
        controller: &'static str,
        /// The key for which it was requested.
        key: &'a Key,
        name: &'static str,
    },
    /// A write was attempted.
    Acted { act: &'a Act, outcome: &'a Outcome },
    /// A reconciliation ended. Its writes have already been observed.
    Reconciled(&'a ReconcileResult),
}

/// Receives the activities of a shell. It is called on the threads that do the work, so it must return quickly.
pub type ObserveFn = Arc<dyn Fn(Activity<'_>) + Send + Sync>;
