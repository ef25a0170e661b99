//! The command line. A command is a file in `commands/`; its doc comments are its help. All output goes
//! through [`output`].

mod bootstrap;
mod checkout;
mod commands;
mod connect;
mod fleet;
mod follow;
mod installation;
mod local_tree;
mod objects;
mod origin;
pub mod output;
mod tree;
mod writer;

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use clap::{CommandFactory as _, Parser};
use tokio::time::Instant;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

use output::Ui;

/// Most seconds that a command waits: a year.
const LONGEST_WAIT: u64 = 365 * 24 * 3600;

/// Returns when a command that waits for some seconds gives up.
fn deadline(seconds: u64) -> Instant {
    Instant::now() + Duration::from_secs(seconds.min(LONGEST_WAIT))
}

/// A GitOps hub operator for fleets of Kubernetes clusters.
///
/// You commit to a config repository. Wheelwright renders the commit, applies it to the hub, chooses
/// clusters, rolls add-ons out across the fleet, stops when too many clusters fail, and pushes the result
/// back as commits.
#[derive(Debug, Parser)]
#[command(name = "wheelwright", version, propagate_version = true, max_term_width = 120)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: commands::Command,
}

/// Options of every command.
#[derive(Debug, clap::Args)]
struct Global {
    /// Log more: -v shows debug lines, -vv traces. `WHEELWRIGHT_LOG` takes a filter such as
    /// `info,shell=debug`.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Format of log lines.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, env = "WHEELWRIGHT_LOG_FORMAT")]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// The failure of a command.
#[derive(Debug)]
pub struct CommandError {
    /// What was attempted and why it failed; the innermost cause is last.
    error: anyhow::Error,
    /// The hint for the user.
    hint: Option<String>,
}

impl CommandError {
    /// Returns a mistake of the user, with a hint.
    pub fn hinted(error: impl Into<anyhow::Error>, hint: impl Into<String>) -> Self {
        Self { error: error.into(), hint: Some(hint.into()) }
    }
}

impl<E: Into<anyhow::Error>> From<E> for CommandError {
    fn from(error: E) -> Self {
        Self { error: error.into(), hint: None }
    }
}

/// The result of a command: its exit code, or its failure.
pub type CommandResult = Result<ExitCode, CommandError>;

/// Runs the process: parses arguments, dispatches, prints an error and its hint.
pub fn main() -> ExitCode {
    let cli = Cli::parse_from(commands::agent_flags::translated(std::env::args_os().collect()));
    let mut ui = Ui::stdio();
    match init_logs(&cli, &mut ui).and_then(|()| commands::run(&cli.command, &mut ui)) {
        Ok(code) => code,
        Err(CommandError { error, .. }) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(CommandError { error, hint }) => {
            let mut stderr = std::io::stderr().lock();
            // A closed standard error leaves no place to report it.
            let _ = writeln!(stderr, "error: {error:#}");
            if let Some(hint) = hint.as_deref().or(hint_about_file(&error)) {
                let _ = writeln!(stderr, "hint: {hint}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Returns the hint for a file that cannot be read or written, when the error has no other.
fn hint_about_file(error: &anyhow::Error) -> Option<&'static str> {
    let kind = error.chain().find_map(|cause| Some(cause.downcast_ref::<std::io::Error>()?.kind()))?;
    match kind {
        std::io::ErrorKind::NotFound => {
            Some("check the path; one without a leading / begins in the current directory")
        }
        std::io::ErrorKind::PermissionDenied => {
            Some("check who may read and write the file and its directory")
        }
        _ => None,
    }
}

/// Returns whether the reader of the output has closed it: `wheelwright … | head` is not an error.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

/// Sends log lines to standard error. The demo runs the parts of a whole fleet in one process and sends them
/// to a file.
fn init_logs(Cli { global, command }: &Cli, ui: &mut Ui) -> Result<(), CommandError> {
    let level = match (global.verbose, command) {
        // The demo overwrites its own lines, and log lines between them would stay on the screen.
        (
            0,
            commands::Command::Status(_) | commands::Command::Dashboard(_) | commands::Command::Rollout(_),
        ) => "warn",
        (0, _) => "info",
        (1, _) => "info,wheelwright=debug,shell=debug",
        (_, _) => "debug,wheelwright=trace,shell=trace",
    };
    let filter = EnvFilter::try_from_env("WHEELWRIGHT_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let logs = tracing_subscriber::fmt().with_env_filter(filter);
    let writer = match command {
        commands::Command::Demo(args) => {
            let (file, path) = args.log_file()?;
            ui.log_file = Some(path);
            BoxMakeWriter::new(Mutex::new(file))
        }
        _ => BoxMakeWriter::new(std::io::stderr),
    };
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let colours = ui.log_file.is_none() && std::io::stderr().is_terminal() && !is_plain;
    match global.log_format {
        LogFormat::Text => logs.with_writer(writer).with_target(false).with_ansi(colours).init(),
        LogFormat::Json => logs.with_writer(writer).json().init(),
    }
    Ok(())
}

/// Returns the command line as clap knows it, for completion scripts.
fn command() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests;
