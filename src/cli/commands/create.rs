//! `wheelwright create`: `work create` and `clusterset create` in the word order of clusteradm.

use crate::cli::CommandResult;
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;

use super::{clusterset, work};

/// Create a work or a cluster set.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Work(work::Create),
    /// Create a cluster set.
    Clusterset(clusterset::Create),
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    match &args.what {
        What::Work(args) => work::create(args, ui),
        What::Clusterset(args) => block_on(clusterset::create(args, ui)),
    }
}
