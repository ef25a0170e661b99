//! The command line. Each command is a file in `commands/`; its doc comments are its help. All output goes through
//! [`output`].

mod agent_program;
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
mod logs;
mod names;
mod objects;
mod origin;
pub mod output;
mod runtime;
mod sops_keys;
mod tree;
mod writer;

use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser};
use clap_complete::CompleteEnv;

use error::exit_code;
use logs::Global;
use output::Ui;

pub use agent_program::agent_main;
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

/// Runs the process: parses the arguments, runs the command, and prints an error with its hint. If the script of a
/// shell asks, completes a command line instead.
pub fn main() -> ExitCode {
    CompleteEnv::with_factory(names::command).var(names::VARIABLE).complete();
    let words = commands::agent_flags::translated(std::env::args_os().collect(), Cli::command);
    let mut command = help::command();
    if words.first().is_some_and(|program| Path::new(program).ends_with(PLUGIN)) {
        command = command.bin_name("kubectl wheelwright");
    }
    let cli = Cli::from_arg_matches(&command.get_matches_from(words)).unwrap_or_else(|error| error.exit());
    let mut ui = Ui::stdio();
    exit_code(start_logs(&cli, &mut ui).and_then(|()| commands::run(&cli.command, &mut ui)))
}

/// Writes logs to standard error. The demo runs a whole fleet in one process and writes its logs to a file.
fn start_logs(Cli { global, command }: &Cli, ui: &mut Ui) -> Result<(), CommandError> {
    let (level, file) = match command {
        // These commands redraw their output, and log lines in between would corrupt the screen.
        commands::Command::Status(_) | commands::Command::Dashboard(_) | commands::Command::Rollout(_) => {
            ("warn", None)
        }
        // Assistants show what a server writes to standard error as problems.
        commands::Command::Mcp(_) => ("error", None),
        commands::Command::Demo(args) => {
            let (file, path) = args.log_file()?;
            ui.log_file = Some(path);
            ("info", Some(file))
        }
        _ => ("info", None),
    };
    global.start_logs(level, file);
    Ok(())
}

#[cfg(test)]
mod tests;
