//! The fleet as it was last read, for all open pages.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use controllers::hub::overview::Overview;

/// The least time between two reads of the fleet while a browser shows it.
const TICK: Duration = Duration::from_millis(500);
/// The pause after a read, as a multiple of its duration.
const PAUSE_FACTOR: u32 = 9;

/// Reads the fleet, or says why it cannot be read now.
pub type ReadOverview = Arc<dyn Fn() -> Result<Overview, String> + Send + Sync>;

/// The fleet, or why it could not be read.
pub(super) type Fleet = Arc<Result<Overview, String>>;

/// The fleet as it was last read; `None` while no page is open.
#[derive(Clone)]
pub(super) struct Live(watch::Sender<Option<Fleet>>);

impl Live {
    pub(super) fn new() -> Self {
        Self(watch::channel(None).0)
    }

    /// Returns the fleet as it is now and as it changes.
    pub(super) fn subscribe(&self) -> watch::Receiver<Option<Fleet>> {
        let mut receiver = self.0.subscribe();
        receiver.mark_changed();
        receiver
    }

    /// Returns the fleet as it is now; `None` when the process ends.
    pub(super) async fn now(&self) -> Option<Fleet> {
        let mut receiver = self.0.subscribe();
        let fleet = receiver.wait_for(Option::is_some).await.ok()?;
        fleet.clone()
    }

    /// Reads the fleet repeatedly while a browser shows it.
    pub(super) async fn read(self, read: ReadOverview, stop: CancellationToken) {
        loop {
            let begin = Instant::now();
            let fleet: Option<Fleet> = if self.0.receiver_count() > 0 {
                let read = Arc::clone(&read);
                // Reading a large fleet takes a while, and the streams go on meanwhile.
                let seen = tokio::task::spawn_blocking(move || read()).await;
                Some(Arc::new(seen.unwrap_or_else(|error| Err(error.to_string()))))
            } else {
                // The next visitor gets a new reading.
                None
            };
            self.0.send_if_modified(|last| {
                let differs = *last != fleet;
                *last = fleet;
                differs
            });
            let pause = TICK.max(begin.elapsed() * PAUSE_FACTOR);
            if stop.run_until_cancelled(sleep(pause)).await.is_none() {
                return;
            }
        }
    }
}
