//! Captures the log lines of a test.

use std::io::{Result, Write};
use std::sync::{Arc, Mutex, Once};

use tracing::Subscriber;
use tracing::subscriber::{DefaultGuard, set_default, set_global_default};

/// Captures the log lines of this thread until it is dropped.
pub(crate) struct Lines {
    text: Text,
    _guard: DefaultGuard,
}

#[derive(Clone, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Lines {
    pub(crate) fn record() -> Self {
        let text = Text::default();
        let written = text.clone();
        let logs = tracing_subscriber::fmt().with_ansi(false).without_time().with_target(false);
        Self::to(text, logs.with_writer(move || written.clone()).finish())
    }

    /// Captures JSON lines.
    pub(crate) fn record_json() -> Self {
        let text = Text::default();
        let written = text.clone();
        let logs = tracing_subscriber::fmt().json();
        Self::to(text, logs.with_writer(move || written.clone()).finish())
    }

    fn to(text: Text, logs: impl Subscriber + Send + Sync + 'static) -> Self {
        // With a single subscriber, `tracing` caches the interest of the thread that first reaches a log line, for
        // all threads. A second subscriber that wants all lines prevents a thread without a subscriber from
        // disabling them.
        static WANTS_ALL: Once = Once::new();
        WANTS_ALL.call_once(|| set_global_default(tracing_subscriber::registry()).unwrap());
        Self { text, _guard: set_default(logs) }
    }

    /// Returns the lines of level INFO and above.
    pub(crate) fn all(&self) -> Vec<String> {
        let text = String::from_utf8(self.text.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| line.trim().to_owned()).collect()
    }
}
