//! Waits for a state that other processes or tasks reach.

use std::time::{Duration, Instant};

/// Longest wait, for a busy machine; an idle one needs a few seconds.
const WITHIN: Duration = Duration::from_secs(120);
/// Interval of the checks.
const POLL: Duration = Duration::from_millis(50);

/// Waits until a state holds; fails the test at the end of the longest wait.
pub(crate) async fn eventually(state: &str, holds: impl AsyncFnMut() -> bool) {
    eventually_within(WITHIN, state, holds).await;
}

/// The same for a state that takes longer than others.
pub(crate) async fn eventually_within(within: Duration, state: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + within;
    while !holds().await {
        assert!(Instant::now() < deadline, "waited {within:?} in vain for: {state}");
        tokio::time::sleep(POLL).await;
    }
}
