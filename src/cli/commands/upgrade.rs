//! `wheelwright upgrade`.

use super::install;
use crate::cli::CommandResult;
use crate::cli::output::Ui;

/// Upgrade the hub side to the version of this program: definitions, roles, and the Deployment of the
/// operator.
///
/// Options that are not given stay as they were installed, the image too: give that of this version by
/// --image. Objects that this version does not have any more are deleted.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    install: install::Args,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    install::upgrade(&args.install, ui)
}
