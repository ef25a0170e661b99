//! `wheelwright policies`.

use std::process::ExitCode;

use crate::apiserver::ADMISSION_POLICIES;
use crate::cli::{CommandResult, output::Ui};

/// Print the admission policies of a hub, for `kubectl apply --server-side -f -`.
///
/// The chart installs them, and the embedded hub has them from the start. They require Kubernetes 1.30 or
/// later.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args, ui: &mut Ui) -> CommandResult {
    ui.text(ADMISSION_POLICIES)?;
    Ok(ExitCode::SUCCESS)
}
