//! `wheelwright upgrade`.

use super::install;
use crate::cli::CommandResult;
use crate::cli::output::Ui;

/// Upgrade the hub side to the version of this program: definitions, roles, and the Deployment of the
/// operator.
///
/// Options that you omit keep their installed values. This includes the image, so name the image of this
/// version with `--image`. Objects that this version no longer has are deleted.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    install: install::Args,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    install::upgrade(&args.install, ui)
}
