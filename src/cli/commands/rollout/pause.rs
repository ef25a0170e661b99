//! `wheelwright rollout pause`.

use super::RolloutName;
use super::policy::change;
use crate::cli::CommandResult;
use crate::cli::commands::explain::rollout::Explained;
use crate::cli::origin::Origin;
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;
use crate::cli::writer::WriteArgs;
use controllers::hub::policy_change::PolicyScope;

/// Hold a rollout: no cluster starts, none is rolled back, none loses the add-on. Clusters in flight arrive.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    subject: RolloutName,
    #[command(flatten)]
    write: WriteArgs,
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let name = &args.subject.name;
    // The command refuses a name that no object has.
    Explained::read(name, &Origin::of_hub(args.write.hub.clone()))?;
    block_on(async {
        let mut writer = args.write.connect().await?;
        change(&mut writer, name, PolicyScope::Named, |spec| spec.paused = true).await?;
        writer.add_line(format!("{name} is paused; wheelwright rollout resume {name} lets it go on"));
        writer.finish(ui)
    })
}
