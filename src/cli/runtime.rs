//! The runtime of asynchronous commands.

use std::time::Duration;

use super::CommandError;

/// Longest wait for busy threads at the end of a command.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// Runs an asynchronous command. Other commands start no runtime.
pub(super) fn block_on<T>(future: impl Future<Output = Result<T, CommandError>>) -> Result<T, CommandError> {
    // rustls panics at the first connection when it has two providers and no default.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(future);
    // A thread that waits for a git server must not delay the end of the process.
    runtime.shutdown_timeout(LAST_WAIT);
    result
}
