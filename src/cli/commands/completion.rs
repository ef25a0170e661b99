//! `wheelwright completion`.

use std::process::ExitCode;

use crate::cli::{CommandResult, output::Ui};

/// Print a completion script for a shell.
///
/// For bash: `source <(wheelwright completion bash)`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Shell to print the script for.
    shell: clap_complete::Shell,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::cli::help::command(), "wheelwright", &mut script);
    ui.text(String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
