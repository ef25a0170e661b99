//! How an operation ends before its time.

use tokio_util::sync::CancellationToken;

/// Ends an operation that runs in another thread.
pub type Cancel = CancellationToken;
