//! `wheelwright rollout approve`.

use std::collections::BTreeMap;

use anyhow::anyhow;
use engine::rollout::RolloutDecision;

use super::Subject;
use super::policy::{Scope, change};
use crate::cli::commands::block_on;
use crate::cli::commands::explain::rollout::Explained;
use crate::cli::origin::Origin;
use crate::cli::output::Ui;
use crate::cli::writer::WriteArgs;
use crate::cli::{CommandError, CommandResult};

/// Clusters of a removal that are named.
const NAMED: usize = 5;

/// Approve what a rollout waits for: the start of a group with a revision, or the removal of an add-on from clusters.
///
/// Without a token, the one approval that waits is given. An approval is for exactly what it names and for nothing later.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    subject: Subject,
    /// Tokens to approve, as `wheelwright rollout status` prints them.
    tokens: Vec<String>,
    /// Approve everything that waits now.
    #[arg(long, conflicts_with = "tokens")]
    all: bool,
    #[command(flatten)]
    write: WriteArgs,
}

/// The approvals that wait, and what each of them is about.
pub(super) fn waiting(explained: &Explained) -> BTreeMap<String, String> {
    let decisions =
        explained.rollouts.iter().filter_map(|rollout| Some((rollout, rollout.decision.as_ref().ok()?)));
    let asked = decisions.flat_map(|(rollout, decision)| {
        decision
            .approvals
            .iter()
            .map(move |token| (token.clone(), format!("{} of {}", about(token, decision), rollout.placement)))
    });
    let removal = &explained.removal.decision;
    let removal = removal.approval.iter().map(|token| (token.clone(), removal_of(&removal.kept)));
    asked.chain(removal).collect()
}

fn about(token: &str, decision: &RolloutDecision) -> String {
    match token.rsplit_once('/') {
        Some((revision, stage)) if revision != "remove" => {
            let clusters = decision.stages.iter().find(|one| one.name == stage).map(|stage| stage.clusters);
            format!("the start of {stage} ({} clusters)", clusters.unwrap_or_default())
        }
        _ => removal_of(&decision.kept),
    }
}

fn removal_of(kept: &[String]) -> String {
    let named: Vec<_> = kept.iter().take(NAMED).map(String::as_str).collect();
    let more = if kept.len() > NAMED { ", ..." } else { "" };
    format!("the removal from {} clusters ({}{more})", kept.len(), named.join(", "))
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let name = &args.subject.name;
    let waiting = waiting(&Explained::read(name, &Origin::of_hub(args.write.hub.clone()))?);
    let chosen = choose(args, &waiting)?;
    block_on(async {
        let mut writer = args.write.connect().await?;
        change(&mut writer, name, Scope::InEffect, |spec| spec.approved.extend(chosen.iter().cloned()))
            .await?;
        for token in &chosen {
            let about = waiting.get(token).map_or("", String::as_str);
            writer.say(format!("approved: {about}"));
        }
        writer.finish(ui)
    })
}

fn choose(args: &Args, waiting: &BTreeMap<String, String>) -> Result<Vec<String>, CommandError> {
    let name = &args.subject.name;
    let list = || waiting.iter().map(|(token, about)| format!("\n  {token}  {about}")).collect::<String>();
    if waiting.is_empty() {
        let error = anyhow!("{name} waits for no approval");
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
