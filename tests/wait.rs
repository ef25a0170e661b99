//! Waits for a state that other processes or tasks reach.

use std::time::{Duration, Instant};

/// Longest wait, for a busy machine; an idle one needs a few seconds.
const WITHIN: Duration = Duration::from_secs(120);
/// Interval of the checks.
const POLL: Duration = Duration::from_millis(50);

/// Waits until a state holds; fails the test at the end of the longest wait.
pub(crate) async fn eventually(state: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + WITHIN;
    while !holds().await {
        assert!(Instant::now() < deadline, "waited {WITHIN:?} in vain for: {state}");
        tokio::time::sleep(POLL).await;
    }
}
