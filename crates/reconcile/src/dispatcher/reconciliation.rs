//! The state of a reconciliation of a key.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::undone::{Written, WrittenContent};
use crate::queue::earlier;
use crate::{Event, Failure, FailureKind, Outcome, Plan, Site};
use object::Key;

/// The reconciliation of a key.
pub(super) struct Reconciliation {
    pub(super) controller_id: usize,
    pub(super) key: Key,
    pub(super) began: Timestamp,
    /// The total time by which the clock was set back since the start.
    pub(super) set_back: SignedDuration,
    pub(super) steps: usize,
    pub(super) wake_at: Option<Timestamp>,
    /// What its plan writes.
    pub(super) written: Written,
    pub(super) events: Vec<Event>,
    /// The events of the status that is being written or has been written.
    pub(super) status_events: Vec<Event>,
    pub(super) failure: Option<Failure>,
    /// True if the hub was unreachable in every failure so far.
    pub(super) is_hub_away: bool,
    pub(super) phase: Phase,
}

/// The phase of a reconciliation.
pub(super) enum Phase {
    /// The plan or the conclusion is being decided or waits for a thread. Ends with [`decided`].
    ///
    /// [`decided`]: super::Dispatcher::decided
    Deciding,
    /// The actions of a step are being executed. Ends when all of them have been attempted.
    Acting(Acting),
    /// The status is being written. Ends when the write has been attempted.
    WritingStatus,
}

pub(super) struct Acting {
    pub(super) plan: Arc<Plan>,
    /// The outcomes by step and position; `None` until the action has been attempted.
    pub(super) outcomes: Vec<Vec<Option<Outcome>>>,
    /// The number of actions in the current step that have not been attempted.
    pub(super) left: usize,
}

impl Reconciliation {
    pub(super) fn new(controller_id: usize, key: Key, now: Timestamp) -> Self {
        let (wake_at, events, status_events, failure) = Default::default();
        let set_back = SignedDuration::ZERO;
        Self {
            controller_id,
            key,
            began: now,
            set_back,
            steps: 0,
            written: Written::Status(WrittenContent::default()),
            wake_at,
            events,
            status_events,
            failure,
            is_hub_away: true,
            phase: Phase::Deciding,
        }
    }

    /// Records a failed write.
    pub(super) fn failed(&mut self, site: Option<Site>, failure: &Failure) {
        self.is_hub_away &= site == Some(Site::Hub) && failure.kind == FailureKind::Unavailable;
        if self.failure.as_ref().is_none_or(|worst| worst.kind <= failure.kind) {
            self.failure = Some(failure.clone());
        }
    }

    /// Adjusts the times after the clock was set back.
    pub(super) fn bring_forward(&mut self, by: SignedDuration) {
        self.began = earlier(self.began, by);
        self.wake_at = self.wake_at.map(|at| earlier(at, by));
        self.set_back = self.set_back.saturating_add(by);
    }
}
