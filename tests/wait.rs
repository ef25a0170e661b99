//! Waits for a state that other processes or tasks bring about.

use std::time::{Duration, Instant};

/// Longest wait. It is for a busy machine; an idle one needs a few seconds.
const WITHIN: Duration = Duration::from_secs(120);
/// Time between two looks.
const POLL: Duration = Duration::from_millis(50);

/// Looks until a state holds, and fails the test when it does not come.
pub(crate) async fn eventually(state: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + WITHIN;
    while !holds().await {
        assert!(Instant::now() < deadline, "waited {WITHIN:?} in vain for: {state}");
        tokio::time::sleep(POLL).await;
    }
}
