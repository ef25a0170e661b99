//! Handles the signals that end a process.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

/// Returns a token that Ctrl-C or SIGTERM cancels.
pub fn stop_on_signal() -> CancellationToken {
    let stop = CancellationToken::new();
    let token = stop.clone();
    // The handlers are installed before the task starts, so that a signal right after the return cannot kill the
    // process.
    match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
        (Ok(mut terminate), Ok(mut interrupt)) => {
            tokio::spawn(async move {
                let signal = tokio::select! {
                    _ = terminate.recv() => "SIGTERM",
                    _ = interrupt.recv() => "SIGINT",
                };
                info!(signal, "stopping");
                token.cancel();
            });
        }
        (Err(error), _) | (_, Err(error)) => error!(%error, "cannot listen for signals"),
    }
    stop
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::lines::Lines;
    use super::*;

    #[tokio::test]
    async fn a_process_that_receives_a_signal_logs_it_and_stops() {
        for (number, line) in
            [("-TERM", "INFO stopping signal=\"SIGTERM\""), ("-INT", "INFO stopping signal=\"SIGINT\"")]
        {
            let (lines, stop) = (Lines::record(), stop_on_signal());
            assert!(!stop.is_cancelled());
            let own = std::process::id().to_string();
            assert!(Command::new("kill").args([number, &own]).status().unwrap().success());
            stop.cancelled().await;
            assert_eq!(lines.all(), [line]);
        }
    }
}
