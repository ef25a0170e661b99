//! The command line: a command is a file in `commands/`, its doc comments are its help, all its output goes through [`output`].

mod commands;
mod local_tree;
pub mod output;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};
use tracing_subscriber::EnvFilter;

use output::Ui;

/// A GitOps hub operator for fleets of Kubernetes clusters.
///
/// Commit to a config repository; Wheelwright renders it, applies it to the hub, places it on clusters, rolls add-ons out
/// across the fleet, stops when too many clusters fail, and pushes what happened back as commits.
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
    /// Log more: -v for debug, -vv for traces. `WHEELWRIGHT_LOG` takes a filter such as `info,wheelwright::shell=debug`.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// How log lines look.
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

/// What a command ends with when it cannot do what it was asked to.
#[derive(Debug)]
pub struct CommandError {
    /// What was attempted and why it failed, innermost cause last.
    error: anyhow::Error,
    /// What the user can do about it.
    hint: Option<String>,
}

impl CommandError {
    /// A mistake of the user's, with what to do about it.
    pub fn hinted(error: impl Into<anyhow::Error>, hint: impl Into<String>) -> Self {
        Self { error: error.into(), hint: Some(hint.into()) }
    }
}

impl<E: Into<anyhow::Error>> From<E> for CommandError {
    fn from(error: E) -> Self {
        Self { error: error.into(), hint: None }
    }
}

/// The result of a command: its exit code, or why it could not run.
pub type CommandResult = Result<ExitCode, CommandError>;

/// Runs the process: parses arguments, dispatches, prints an error and its hint.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    init_logs(&cli.global);
    let mut ui = Ui::stdio();
    match commands::run(cli.command, &mut ui) {
        Ok(code) => code,
        Err(CommandError { error, .. }) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(CommandError { error, hint }) => {
            let mut stderr = std::io::stderr().lock();
            // Nowhere is left to say that stderr is closed.
            let _ = writeln!(stderr, "error: {error:#}");
            if let Some(hint) = hint {
                let _ = writeln!(stderr, "hint: {hint}");
            }
            ExitCode::FAILURE
        }
    }
}

/// `wheelwright … | head` is not an error.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

fn init_logs(global: &Global) {
    let level = match global.verbose {
        0 => "info",
        1 => "info,wheelwright=debug",
        _ => "debug,wheelwright=trace",
    };
    let filter = EnvFilter::try_from_env("WHEELWRIGHT_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match global.log_format {
        LogFormat::Text => logs.with_target(false).init(),
        LogFormat::Json => logs.json().init(),
    }
}

/// The command line as clap knows it, for completion scripts.
fn command() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
    }
}
