//! `wheelwright rollout`: shows, pauses, resumes, approves and undoes rollouts.

mod approve;
mod cluster_history;
mod history;
pub(super) mod pause;
mod policy;
pub(super) mod resume;
mod status;
mod undo;

use crate::cli::{CommandResult, output::Ui};

/// Show, pause, resume, approve and undo rollouts.
///
/// The decisions of people are in RolloutPolicies on the hub. If no policy names the add-on or the set, the
/// command creates one.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Status(status::Args),
    History(history::Args),
    Pause(pause::Args),
    Resume(resume::Args),
    Approve(approve::Args),
    Undo(undo::Args),
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    match &args.verb {
        Verb::Status(args) => status::run(args, ui),
        Verb::History(args) => history::run(args, ui),
        Verb::Pause(args) => pause::run(args, ui),
        Verb::Resume(args) => resume::run(args, ui),
        Verb::Approve(args) => approve::run(args, ui),
        Verb::Undo(args) => undo::run(args, ui),
    }
}

/// The add-on or the set that a command is about.
#[derive(Debug, clap::Args)]
struct RolloutName {
    /// Name of the add-on (its ClusterManagementAddOn), or NAMESPACE/NAME of a ManifestWorkReplicaSet.
    #[arg(value_name = "ADDON|NAMESPACE/NAME")]
    name: String,
}

/// The add-on or the set that a command is about, or all of them.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct RolloutNames {
    /// Name of the add-on (its ClusterManagementAddOn), or NAMESPACE/NAME of a ManifestWorkReplicaSet.
    #[arg(value_name = "ADDON|NAMESPACE/NAME")]
    name: Option<String>,
    /// Every add-on and set of the hub.
    #[arg(long)]
    all: bool,
}
