//! `wheelwright rollout approve`.

use std::collections::BTreeMap;

use anyhow::anyhow;

use super::RolloutName;
use super::policy::change;
use crate::cli::commands::explain::rollout::Explained;
use crate::cli::origin::Origin;
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;
use crate::cli::writer::WriteArgs;
use crate::cli::{CommandError, CommandResult};
use controllers::policy_change::{PolicyScope, waiting_approvals};

/// Approve what a rollout waits for: the start of a group with a revision, or the removal of an add-on from
/// clusters.
///
/// Without a token, the command gives the one approval that waits. An approval is valid only for exactly what
/// it names.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    subject: RolloutName,
    /// Tokens to approve, as `wheelwright rollout status` prints them.
    tokens: Vec<String>,
    /// Approve everything that waits now.
    #[arg(long, conflicts_with = "tokens")]
    all: bool,
    #[command(flatten)]
    write: WriteArgs,
}

/// Returns the pending approvals, with a description of each.
pub(super) fn waiting(explained: &Explained) -> BTreeMap<String, String> {
    waiting_approvals(&explained.rollouts, &explained.removal)
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let name = &args.subject.name;
    let waiting = waiting(&Explained::read(name, &Origin::from_hub(args.write.hub.clone()))?);
    let chosen = choose(args, &waiting)?;
    block_on(async {
        let mut writer = args.write.connect().await?;
        change(&mut writer, name, PolicyScope::InEffect, |spec| spec.approved.extend(chosen.iter().cloned()))
            .await?;
        for token in &chosen {
            let about = waiting.get(token).map_or("", String::as_str);
            writer.add_line(format!("approved: {about}"));
        }
        writer.finish(ui)
    })
}

fn choose(args: &Args, waiting: &BTreeMap<String, String>) -> Result<Vec<String>, CommandError> {
    let name = &args.subject.name;
    let list = || waiting.iter().map(|(token, about)| format!("\n  {token}  {about}")).collect::<String>();
    if waiting.is_empty() {
        let error = anyhow!("{name} is not waiting for approval");
        return Err(CommandError::hinted(error, format!("wheelwright rollout status {name}")));
    }
    if let Some(unknown) = args.tokens.iter().find(|token| !waiting.contains_key(*token)) {
        let error = anyhow!("{name} does not wait for the approval {unknown}");
        return Err(CommandError::hinted(error, format!("these wait:{}", list())));
    }
    match (args.tokens.is_empty(), waiting.len()) {
        (false, _) => Ok(args.tokens.clone()),
        (true, many) if many > 1 && !args.all => {
            let error = anyhow!("{name} waits for {many} approvals");
            Err(CommandError::hinted(error, format!("name one, or add --all:{}", list())))
        }
        (true, _) => Ok(waiting.keys().cloned().collect()),
    }
}
