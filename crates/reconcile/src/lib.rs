//! The three seams between deciding and acting, and the dispatcher that runs controllers across them.
//!
//! A [`Controller`] is a pure function from a [`View`] (the input) and `now` (the time) to a [`Plan`] (the writes,
//! as data). A [`Dispatcher`] decides when each controller plans each key, fills the [`Caches`], and returns the
//! commands to execute. It does no I/O and reads no clock, so the operator, the agent and the simulator all run
//! it.

#![warn(missing_docs)]

mod cached;
mod caches;
mod controller;
mod dispatcher;
mod event;
mod git;
mod index;
mod kind;
mod large;
mod lookup;
mod memo;
mod notification;
mod outcome;
mod plan;
mod queue;
mod scope;
mod snapshot;
mod verbs;
mod view;

pub use caches::{CachedCount, Caches, Delta, Unreadable};
pub use controller::{Change, Controller, Register, Wakes, Watches};
pub use dispatcher::{
    Act, Acted, Command, ControllerInfo, Decided, Decision, Dispatcher, DispatcherLimits, Planning,
    ReconcileResult,
};
pub use event::{Event, EventType};
pub use git::{CommitStatus, Push, ReportTakeover};
pub use index::{Index, Observes};
pub use kind::{Decoded, ObjectText, Representation, WatchedKind, WatcherEvent};
pub use lookup::{Access, AccessReview, DryRun, Gvr, Lookup, LookupAnswer, Mapping, PodsQuery, ServerHealth};
pub use memo::{Cancel, Computation, Computed, Memo};
pub use notification::Notification;
pub use outcome::{Answer, Executed, Failure, FailureKind, Outcome};
pub use plan::{Action, Plan, Precondition, Site, StatusWrite, Subresource};
pub use queue::Backoff;
pub(crate) use queue::{Cause, Priority, Wake, WorkQueue};
pub use scope::{Narrowed, Scope};
pub use snapshot::Snapshot;
pub use view::{Query, Read, ReadError, ReadErrorReason, Source, SourceFailure, SourceIdentity, View};
