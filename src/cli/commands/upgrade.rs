//! `wheelwright upgrade`.

use super::install;
use crate::cli::CommandResult;
use crate::cli::output::Ui;

/// Upgrade the operator on a hub to the version of this program, its definitions included.
///
/// Options that are not given stay as they were installed. Objects that this version does not have any more are deleted.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    install: install::Args,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    install::upgrade(&args.install, ui)
}
