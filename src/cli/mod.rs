//! The command line. Each command is a file in `commands/`; its doc comments are its help. All output goes through
//! [`output`].

mod bootstrap;
mod charts;
mod checkout;
pub(crate) mod cluster_objects;
mod commands;
mod connect;
mod duration;
mod election;
mod error;
mod fleet;
mod follow;
mod help;
mod installation;
mod large_file;
mod local_tree;
mod names;
mod objects;
mod origin;
pub mod output;
mod runtime;
mod sops_keys;
mod tree;
mod writer;

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;

use clap::{FromArgMatches as _, Parser};
use clap_complete::CompleteEnv;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

use error::{hint_about_file, is_closed_pipe};
use output::Ui;

pub use error::{CommandError, CommandResult};

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

/// The name of this program as a plugin of kubectl.
const PLUGIN: &str = "kubectl-wheelwright";

/// The heading of the global options.
const GLOBAL: &str = "Global options";

/// Options of every command.
#[derive(Debug, clap::Args)]
struct Global {
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

/// Runs the process: parses the arguments, runs the command, and prints an error with its hint. If the script of a
/// shell asks, completes a command line instead.
pub fn main() -> ExitCode {
    CompleteEnv::with_factory(names::command).var(names::VARIABLE).complete();
    let words: Vec<_> = commands::agent_flags::translated(std::env::args_os().collect());
    let mut command = help::command();
    if words.first().is_some_and(|program| Path::new(program).ends_with(PLUGIN)) {
        command = command.bin_name("kubectl wheelwright");
    }
    let cli = Cli::from_arg_matches(&command.get_matches_from(words)).unwrap_or_else(|error| error.exit());
    let mut ui = Ui::stdio();
    match init_logs(&cli, &mut ui).and_then(|()| commands::run(&cli.command, &mut ui)) {
        Ok(code) => code,
        Err(CommandError { error, .. }) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(CommandError { error, hint }) => {
            let mut stderr = std::io::stderr().lock();
            // If standard error is closed, there is nowhere to report that.
            let _ = writeln!(stderr, "error: {}", shell::with_causes(error.as_ref()));
            if let Some(hint) = hint.as_deref().or(hint_about_file(&error)) {
                let _ = writeln!(stderr, "hint: {hint}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Writes logs to standard error. The demo runs a whole fleet in one process and writes its logs to a file.
fn init_logs(Cli { global, command }: &Cli, ui: &mut Ui) -> Result<(), CommandError> {
    let level = match (global.verbose, command) {
        // These commands redraw their output, and log lines in between would corrupt the screen.
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
    let colors = ui.log_file.is_none() && std::io::stderr().is_terminal() && !is_plain;
    match global.log_format {
        LogFormat::Text => logs.with_writer(writer).with_target(false).with_ansi(colors).init(),
        LogFormat::Json => logs.with_writer(writer).json().init(),
    }
    Ok(())
}

#[cfg(test)]
mod tests;
