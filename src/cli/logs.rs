//! The options of every command, and logs.

use std::fs::File;
use std::io::IsTerminal as _;
use std::sync::Mutex;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

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
        let filter = EnvFilter::try_from_env("WHEELWRIGHT_LOG").unwrap_or_else(|_| EnvFilter::new(level));
        let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colors = file.is_none() && std::io::stderr().is_terminal() && !is_plain;
        let writer = match file {
            Some(file) => BoxMakeWriter::new(Mutex::new(file)),
            None => BoxMakeWriter::new(std::io::stderr),
        };
        let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
        match self.log_format {
            LogFormat::Text => logs.with_target(false).with_ansi(colors).init(),
            LogFormat::Json => logs.json().init(),
        }
    }
}
