//! `wheelwright completion`.

use std::process::ExitCode;

use anyhow::anyhow;
use clap_complete::env::Shells;

use crate::cli::{CommandResult, names, output::Ui};

/// Print a completion script for a shell.
///
/// For bash: `source <(wheelwright completion bash)`. The script runs `wheelwright`, which also completes
/// names from the hub: clusters, cluster sets, placements, add-ons, ManifestWorkReplicaSets and ConfigRepos.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Shell to print the script for.
    shell: clap_complete::Shell,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    const PROGRAM: &str = "wheelwright";
    let shell = args.shell.to_string();
    let shells = Shells::builtins();
    let completer = shells.completer(&shell).ok_or_else(|| anyhow!("there is no completion for {shell}"))?;
    let mut script = Vec::new();
    completer.write_registration(names::VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)?;
    ui.text(String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
