//! The options of every command, and logs.

use std::fs::File;
use std::io::IsTerminal as _;
use std::sync::Mutex;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// The heading of the global options.
const GLOBAL: &str = "Global options";

/// Options of every command.
#[derive(Debug, clap::Args)]
pub(super) struct Global {
    /// Log more: `-v` logs debug messages, `-vv` also traces. The variable `WHEELWRIGHT_LOG` takes
    /// precedence, with a filter such as `info,shell=debug`.
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = GLOBAL)]
    verbose: u8,
    /// Format of log messages.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, env = "WHEELWRIGHT_LOG_FORMAT", help_heading = GLOBAL)]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

impl Global {
    /// Writes logs to a file, or to standard error. `-v` raises the level.
    pub(super) fn start_logs(&self, level: &str, file: Option<File>) {
        let level = match self.verbose {
            0 => level,
            1 => "info,wheelwright=debug,shell=debug",
            _ => "debug,wheelwright=trace,shell=trace",
        };
        let named = std::env::var("WHEELWRIGHT_LOG").ok().and_then(|named| named.parse().ok());
        let filter: Targets = named.or_else(|| level.parse().ok()).unwrap_or_default();
        let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colors = file.is_none() && std::io::stderr().is_terminal() && !is_plain;
        let writer = match file {
            Some(file) => BoxMakeWriter::new(Mutex::new(file)),
            None => BoxMakeWriter::new(std::io::stderr),
        };
        let logs = tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_writer(writer);
        match self.log_format {
            LogFormat::Text => logs.with_target(false).with_ansi(colors).finish().with(filter).init(),
            LogFormat::Json => logs.json().finish().with(filter).init(),
        }
    }
}
