//! The last reports of an operator that stops.

use std::time::Duration;

use futures::future::join_all;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tracing::warn;

use crate::shell::{Handle, Leadership, now};
use controllers::hub::report::{self, ReportController};

/// The time limit for the last reports. The next leader pushes the rest.
const LAST_REPORTS: Duration = Duration::from_secs(10);

/// Pushes the reports that wait for their interval or for more changes, while this process is still the leader.
pub(super) async fn push(handle: Handle, leadership: Option<Leadership>) {
    let caches = handle.caches();
    let push = async {
        // A panic in a plan is already logged.
        let planned = spawn_blocking(move || report::last_reports(&caches, now())).await.unwrap_or_default();
        join_all(planned.into_iter().map(|(key, plan)| {
            let handle = &handle;
            async move { handle.execute::<ReportController>(&key, plan).await }
        }))
        .await;
    };
    let may_write = async {
        match leadership {
            Some(leadership) => leadership.ended().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = push => {}
        () = may_write => {}
        () = sleep(LAST_REPORTS) => warn!("the last reports were not pushed: the git server did not respond in time"),
    }
}
