//! `wheelwright rollout pause`, and `wheelwright pause`.

use super::RolloutNames;
use super::policy::change;
use crate::cli::commands::explain::rollout::Explained;
use crate::cli::origin::Origin;
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;
use crate::cli::writer::WriteArgs;
use crate::cli::{CommandError, CommandResult};
use controllers::policy_change::PolicyScope;

/// Pause a rollout, or with `--all` every rollout of the hub.
///
/// No cluster starts, is rolled back or loses the add-on. Clusters in flight finish.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    subject: RolloutNames,
    #[command(flatten)]
    write: WriteArgs,
}

pub(in crate::cli::commands) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let name = args.subject.name.as_deref();
    if let Some(name) = name {
        // Fail if the add-on or set does not exist.
        Explained::read(name, &Origin::from_hub(args.write.hub.clone()))?;
    }
    block_on(async {
        let mut writer = args.write.connect().await?;
        let scope = if name.is_some() { PolicyScope::Named } else { PolicyScope::Fleet };
        change(&mut writer, name.unwrap_or("the fleet"), scope, |spec| spec.paused = true).await?;
        writer.add_line(match name {
            Some(name) => format!("{name} is paused. Resume it with: wheelwright rollout resume {name}"),
            None => "Every add-on and set is paused. Resume them with: wheelwright resume --all".to_owned(),
        });
        Ok::<_, CommandError>(writer)
    })?
    .finish(ui)
}
