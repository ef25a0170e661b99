//! `wheelwright explain`: explains a decision.

mod placement;
pub(super) mod rollout;

use crate::cli::{CommandResult, output::Ui};

/// Explain a decision, cluster by cluster.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Topic,
}

#[derive(Debug, clap::Subcommand)]
enum Topic {
    Placement(placement::Args),
    Rollout(rollout::Args),
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    match &args.what {
        Topic::Placement(args) => placement::run(args, ui),
        Topic::Rollout(args) => rollout::run(args, ui),
    }
}
