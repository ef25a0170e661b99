//! The fleet as it was last read, for all open pages.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Mutex, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::cluster::ClusterObjects;
use crate::shell::now;
use controllers::hub::overview::Overview;
use engine::placement::explain::Explanation;
use object::Key;

/// The least time between two reads of the fleet while a browser shows it.
const TICK: Duration = Duration::from_millis(500);
/// The pause after a read, as a multiple of its duration.
const PAUSE_FACTOR: u32 = 9;

/// Reads what the pages show.
pub trait ReadFleet: Send + Sync {
    /// Returns the fleet.
    ///
    /// # Errors
    /// The text says why it cannot be read now.
    fn overview(&self) -> Result<Overview, String>;

    /// Explains which clusters a placement selects; `None` if it does not exist.
    ///
    /// # Errors
    /// As for [`ReadFleet::overview`].
    fn placement(&self, placement: &Key) -> Result<Option<Explanation>, String>;

    /// Returns the objects about a cluster.
    ///
    /// # Errors
    /// As for [`ReadFleet::overview`].
    fn cluster(&self, name: &str) -> Result<ClusterObjects, String>;
}

/// A reading of the fleet.
#[derive(Debug)]
pub(super) struct Reading {
    /// The fleet, or why it could not be read.
    pub(super) overview: Result<Overview, String>,
    /// When it was first so. The ages in events are those of this time, so that no event has them alone.
    pub(super) since: Timestamp,
}

/// A reading that all open pages share.
pub(super) type Fleet = Arc<Reading>;

/// The fleet as it was last read; `None` while no page is open.
#[derive(Clone)]
pub(super) struct Live {
    fleet: watch::Sender<Option<Fleet>>,
    reader: Arc<dyn ReadFleet>,
    /// One placement is explained at a time: it takes a processor for as long as the fleet is large.
    explaining: Arc<Mutex<()>>,
}

impl Live {
    pub(super) fn new(reader: Arc<dyn ReadFleet>) -> Self {
        Self { fleet: watch::channel(None).0, reader, explaining: Arc::default() }
    }

    /// Returns the fleet as it is now and as it changes.
    pub(super) fn subscribe(&self) -> watch::Receiver<Option<Fleet>> {
        let mut receiver = self.fleet.subscribe();
        receiver.mark_changed();
        receiver
    }

    /// Returns the fleet as it is now; `None` when the process ends.
    pub(super) async fn now(&self) -> Option<Fleet> {
        let mut receiver = self.fleet.subscribe();
        let fleet = receiver.wait_for(Option::is_some).await.ok()?;
        fleet.clone()
    }

    /// Calls [`ReadFleet::placement`].
    pub(super) async fn placement(&self, placement: Key) -> Result<Option<Explanation>, String> {
        let _turn = self.explaining.lock().await;
        let reader = Arc::clone(&self.reader);
        let explained = spawn_blocking(move || reader.placement(&placement)).await;
        explained.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Calls [`ReadFleet::cluster`].
    pub(super) async fn cluster(&self, name: &str) -> Result<ClusterObjects, String> {
        let (reader, name) = (Arc::clone(&self.reader), name.to_owned());
        let read = spawn_blocking(move || reader.cluster(&name)).await;
        read.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Reads the fleet repeatedly while a browser shows it.
    pub(super) async fn read(self, stop: CancellationToken) {
        loop {
            let begin = Instant::now();
            let fleet: Option<Fleet> = if self.fleet.receiver_count() > 0 {
                let reader = Arc::clone(&self.reader);
                // Reading a large fleet takes a while, and the streams go on meanwhile.
                let seen = spawn_blocking(move || reader.overview()).await;
                let overview = seen.unwrap_or_else(|error| Err(error.to_string()));
                Some(Arc::new(Reading { overview, since: now() }))
            } else {
                // The next visitor gets a new reading.
                None
            };
            self.fleet.send_if_modified(|last| {
                if last.as_ref().map(|last| &last.overview) == fleet.as_ref().map(|fleet| &fleet.overview) {
                    return false;
                }
                *last = fleet;
                true
            });
            let pause = TICK.max(begin.elapsed() * PAUSE_FACTOR);
            if stop.run_until_cancelled(sleep(pause)).await.is_none() {
                return;
            }
        }
    }
}
