//! Waits for a state that other processes or tasks reach.

use std::time::{Duration, Instant};

/// Maximum wait, sized for a busy machine; an idle one needs a few seconds.
const WITHIN: Duration = Duration::from_secs(120);
/// Polling interval.
const POLL: Duration = Duration::from_millis(50);

/// Waits until a state is reached; fails the test if that takes too long.
pub(crate) async fn eventually(state: &str, holds: impl AsyncFnMut() -> bool) {
    eventually_within(WITHIN, state, holds).await;
}

/// Waits like [`eventually`], with a custom limit.
pub(crate) async fn eventually_within(within: Duration, state: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + within;
    while !holds().await {
        assert!(Instant::now() < deadline, "waited {within:?} in vain for: {state}");
        tokio::time::sleep(POLL).await;
    }
}
