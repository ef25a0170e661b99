//! The time until which a process may write.

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

/// The time until which a process may write, by its election. After a suspension, a process finds its
/// leadership ended.
#[derive(Clone, Debug)]
pub struct Leadership(watch::Receiver<Instant>);

impl Leadership {
    /// A leadership that has ended already, with the sender that starts and extends it.
    pub(super) fn new() -> (watch::Sender<Instant>, Self) {
        let (sender, receiver) = watch::channel(Instant::now());
        (sender, Self(receiver))
    }

    /// Whether the process may write now.
    pub fn holds(&self) -> bool {
        Instant::now() < *self.0.borrow()
    }

    /// When it ends unless it is extended.
    pub(super) fn until(&self) -> Instant {
        *self.0.borrow()
    }

    /// Waits until the process may not write any more.
    pub async fn ended(mut self) {
        loop {
            let until = *self.0.borrow_and_update();
            match timeout_at(until, self.0.changed()).await {
                Ok(Ok(())) => {}
                // The candidate that could extend it is gone.
                Ok(Err(_)) => return sleep_until(until).await,
                Err(_) => return,
            }
        }
    }
}
