//! Leader election by Lease, by the rules of client-go: writes compare the resource version, and expiry is
//! judged by this process's own monotonic clock and never by the time that another process wrote.
//!
//! A leader may write until a [deadline](Leadership) that is counted from before its last renewal was sent,
//! and that comes well before another one can be elected. `docs/design/leader-election.md` says which
//! writes are fenced after it.

mod candidate;
mod leadership;

pub use candidate::{Election, ElectionOptions};
pub use leadership::Leadership;

use tokio_util::sync::CancellationToken;

/// Runs `work` while this process leads: from its election, or at once without one, until `over`.
///
/// Cancels `over` when the leadership is lost; `work` must end then. The lease is released after its end, since
/// the next leader reads the cluster once it is elected, and must find all writes of this one.
pub async fn lead(election: Option<Election>, over: CancellationToken, work: impl Future<Output = ()>) {
    let Some(mut election) = election else { return work.await };
    if !election.acquire(&over).await {
        return;
    }
    let renewals = async {
        election.renew(&over).await;
        over.cancel();
    };
    tokio::join!(work, renewals);
    election.release().await;
}
