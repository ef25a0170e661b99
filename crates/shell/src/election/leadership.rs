use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::clock::Moment;

/// The time until which an election allows this process to write. After the process or the machine was suspended,
/// the process finds that its leadership has ended.
#[derive(Clone, Debug)]
pub struct Leadership(watch::Receiver<Term>);

/// The time for which a renewal of the lease is valid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Term {
    /// When the renewal was sent.
    pub(super) sent: Moment,
    pub(super) lasts: Duration,
}

/// The error when this process may not write.
#[derive(Debug, thiserror::Error)]
#[error("this process is no longer the leader")]
pub(crate) struct NotLeading;

impl Term {
    /// Returns a term that has ended.
    pub(super) fn over() -> Self {
        Self { sent: Moment::now(), lasts: Duration::ZERO }
    }

    /// Returns its end by the clock of timers, which stops while the machine is suspended.
    fn until(self) -> Instant {
        self.sent.instant + self.lasts
    }
}

impl Leadership {
    /// Returns a leadership that has already ended, with the sender that starts and extends it.
    pub(super) fn new() -> (watch::Sender<Term>, Self) {
        let (sender, receiver) = watch::channel(Term::over());
        (sender, Self(receiver))
    }

    /// Returns true if the process may write now.
    pub fn holds(&self) -> bool {
        let Term { sent, lasts } = *self.0.borrow();
        Moment::now().since(sent) < lasts
    }

    /// Returns an error if the process may not write now.
    pub(crate) fn check(&self) -> Result<(), NotLeading> {
        if self.holds() { Ok(()) } else { Err(NotLeading) }
    }

    /// Returns when the leadership ends unless it is extended.
    pub(super) fn until(&self) -> Instant {
        self.0.borrow().until()
    }

    /// Waits until the process may no longer write.
    pub async fn ended(mut self) {
        loop {
            let until = self.0.borrow_and_update().until();
            match timeout_at(until, self.0.changed()).await {
                Ok(Ok(())) => {}
                // The candidate that could extend it no longer exists.
                Ok(Err(_)) => return sleep_until(until).await,
                Err(_) => return,
            }
        }
    }
}
