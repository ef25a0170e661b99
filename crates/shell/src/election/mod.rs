//! Leader election by Lease, following client-go: writes compare the resource version, and each process judges
//! expiry by its own monotonic clock, never by a time that another process wrote.
//!
//! A leader may write until a [deadline](Leadership). The deadline counts from just before its last renewal was
//! sent, and comes well before another leader can be elected. `docs/design/leader-election.md` lists the writes
//! that are fenced after it.

mod candidate;
mod leadership;

pub use candidate::{Election, ElectionOptions};
pub use leadership::Leadership;

use tokio_util::sync::CancellationToken;

/// Runs `work` while this process leads: from its election (or at once if there is none) until `over` is canceled.
///
/// Cancels `over` when the leadership is lost; `work` must then end. The lease is released only after `work` has
/// ended, because the next leader reads the cluster once it is elected, and must see all writes of this one.
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
