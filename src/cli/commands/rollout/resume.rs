//! `wheelwright rollout resume`.

use std::collections::BTreeSet;

use anyhow::anyhow;
use engine::rollout::cluster::Hash;

use super::RolloutName;
use super::policy::{change, in_effect};
use crate::cli::commands::explain::rollout::Explained;
use crate::cli::origin::Origin;
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;
use crate::cli::writer::WriteArgs;
use crate::cli::{CommandError, CommandResult};
use controllers::hub::policy_change::PolicyScope;

/// Let a rollout that was paused go on, and with `--release` a revision that was undone.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    subject: RolloutName,
    /// Roll a quarantined revision out again, although it failed or was undone.
    #[arg(long)]
    release: bool,
    #[command(flatten)]
    write: WriteArgs,
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let name = &args.subject.name;
    let explained = Explained::read(name, &Origin::of_hub(args.write.hub.clone()))?;
    let decisions = explained.rollouts.iter().filter_map(|rollout| rollout.decision.as_ref().ok());
    let quarantined: BTreeSet<String> =
        decisions.filter_map(|decision| Some(decision.quarantine.as_ref()?.0.clone())).collect();
    block_on(async {
        let mut writer = args.write.connect().await?;
        let paused = in_effect(&writer, name).await?.is_some_and(|policy| policy.spec.paused);
        let released = if args.release { quarantined.clone() } else { BTreeSet::new() };
        if !paused && released.is_empty() {
            let error = anyhow!("{name} is not paused");
            let hint = match quarantined.is_empty() {
                true => format!("wheelwright rollout status {name}"),
                false => format!("its revision is quarantined: wheelwright rollout resume {name} --release"),
            };
            return Err(CommandError::hinted(error, hint));
        }
        let scope = if paused { PolicyScope::Named } else { PolicyScope::InEffect };
        change(&mut writer, name, scope, |spec| {
            spec.paused = false;
            let missing = released.iter().filter(|one| !spec.released_revisions.contains(one)).cloned();
            let missing: Vec<_> = missing.collect();
            spec.released_revisions.extend(missing);
        })
        .await?;
        for revision in &released {
            writer.add_line(format!("revision {} is released", explained.named(&Hash(revision.clone()))));
        }
        writer.add_line(format!("{name} goes on; wheelwright rollout status {name} --watch follows it"));
        writer.finish(ui)
    })
}
