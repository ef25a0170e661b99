//! The runtime for asynchronous commands.

use std::time::Duration;

use super::CommandError;

/// The longest wait for busy threads at the end of a command.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// Runs an asynchronous command. Other commands start no runtime.
pub(super) fn block_on<T>(future: impl Future<Output = Result<T, CommandError>>) -> Result<T, CommandError> {
    // With two providers and no default, rustls panics at the first connection.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(future);
    // A thread that waits for a git server must not delay the end of the process.
    runtime.shutdown_timeout(LAST_WAIT);
    result
}
