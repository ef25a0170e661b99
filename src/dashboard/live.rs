//! The latest state of the fleet, shared by all open pages.

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
use controllers::hub::placement::LabelChange;
use engine::placement::explain::Explanation;
use object::Key;

/// The minimum time between two reads of the fleet while a browser shows it.
const TICK: Duration = Duration::from_millis(500);
/// The pause after a read, as a multiple of its duration.
const PAUSE_FACTOR: u32 = 9;

/// Reads the state that the pages show.
pub trait ReadFleet: Send + Sync {
    /// Returns the fleet.
    ///
    /// # Errors
    /// Returns the reason why the fleet cannot currently be read.
    fn overview(&self) -> Result<Overview, String>;

    /// Explains which clusters a placement selects, or would select after a change of a label; returns `None` if it
    /// does not exist.
    ///
    /// # Errors
    /// As for [`ReadFleet::overview`].
    fn placement(&self, placement: &Key, change: Option<&LabelChange>)
    -> Result<Option<Explanation>, String>;

    /// Returns the objects of a cluster. It may wait for the hub, on a thread for blocking work.
    ///
    /// # Errors
    /// As for [`ReadFleet::overview`].
    fn cluster(&self, name: &str) -> Result<ClusterObjects, String>;
}

/// The result of reading the fleet.
#[derive(Debug)]
pub(super) struct Reading {
    /// The fleet, or the reason why it could not be read.
    pub(super) overview: Result<Overview, String>,
    /// The time of the first read with this result. Ages in events are relative to it, so that ages alone cause no
    /// events.
    pub(super) since: Timestamp,
}

/// A reading that all open pages share.
pub(super) type Fleet = Arc<Reading>;

/// The latest reading of the fleet; `None` while no page is open.
#[derive(Clone)]
pub(super) struct Live {
    fleet: watch::Sender<Option<Fleet>>,
    reader: Arc<dyn ReadFleet>,
    /// Explains one placement at a time, because each occupies a CPU for a time that grows with the fleet.
    explaining: Arc<Mutex<()>>,
}

impl Live {
    pub(super) fn new(reader: Arc<dyn ReadFleet>) -> Self {
        Self { fleet: watch::channel(None).0, reader, explaining: Arc::default() }
    }

    /// Returns the current fleet, and then its changes.
    pub(super) fn subscribe(&self) -> watch::Receiver<Option<Fleet>> {
        let mut receiver = self.fleet.subscribe();
        receiver.mark_changed();
        receiver
    }

    /// Returns the current fleet; `None` when the process ends.
    pub(super) async fn now(&self) -> Option<Fleet> {
        let mut receiver = self.fleet.subscribe();
        let fleet = receiver.wait_for(Option::is_some).await.ok()?;
        fleet.clone()
    }

    /// Calls [`ReadFleet::placement`].
    pub(super) async fn placement(
        &self,
        placement: Key,
        change: Option<LabelChange>,
    ) -> Result<Option<Explanation>, String> {
        let _turn = self.explaining.lock().await;
        let reader = Arc::clone(&self.reader);
        let explained = spawn_blocking(move || reader.placement(&placement, change.as_ref())).await;
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
                // Reading a large fleet takes a while and must not block the streams.
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
