//! `wheelwright rollout resume`, and `wheelwright resume`.

use std::collections::BTreeSet;

use anyhow::anyhow;
use api::gitops::v1alpha1::RolloutPolicy;
use api::names::DEFAULT_ROLLOUT_POLICY;
use engine::report::quarantine_remedy;
use engine::rollout::cluster::Hash;
use object::Metadata as _;

use super::RolloutNames;
use super::policy::{change, edit, policies, subjects};
use crate::cli::commands::explain::rollout::Explained;
use crate::cli::origin::Origin;
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;
use crate::cli::writer::{WriteArgs, Writer};
use crate::cli::{CommandError, CommandResult};
use controllers::policy_change::{PolicyScope, is_for_everything, pausing, resume_everything};

/// Resume a paused rollout.
///
/// With `--release`, a quarantined revision is rolled out again. With `--all`, the pause of `pause --all`
/// ends. If another RolloutPolicy also pauses the rollout, it stays paused, and the answer names that policy.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    subject: RolloutNames,
    /// Roll out a quarantined revision again, although it failed or was undone.
    #[arg(long, conflicts_with = "all")]
    release: bool,
    #[command(flatten)]
    write: WriteArgs,
}

pub(in crate::cli::commands) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let writer = match &args.subject.name {
        Some(name) => resume(args, name)?,
        None => block_on(resume_all(args))?,
    };
    writer.finish(ui)
}

async fn resume_all(args: &Args) -> Result<Writer, CommandError> {
    let mut writer = args.write.connect().await?;
    let all = policies(&writer).await?;
    let others = all.iter().filter(|policy| policy.spec.paused && policy.name() != DEFAULT_ROLLOUT_POLICY);
    let others: Vec<&RolloutPolicy> = others.collect();
    let is_paused = all.iter().any(|policy| policy.spec.paused && policy.name() == DEFAULT_ROLLOUT_POLICY);
    if !is_paused {
        let error = anyhow!("the fleet is not paused by wheelwright pause --all");
        let names: Vec<&str> = others.iter().map(|policy| policy.name()).collect();
        return Err(CommandError::hinted(
            error,
            match names.as_slice() {
                [] => "no RolloutPolicy pauses anything: wheelwright status".to_owned(),
                names => {
                    format!("RolloutPolicies that pause: {}; kubectl edit rolloutpolicy", names.join(", "))
                }
            },
        ));
    }
    edit(&mut writer, DEFAULT_ROLLOUT_POLICY, |spec| spec.paused = false).await?;
    if others.is_empty() {
        writer.add_line("Every add-on and set is resumed.");
    }
    for policy in others {
        writer.add_line(format!("RolloutPolicy {} still pauses {}", policy.name(), what_it_pauses(policy)));
    }
    Ok(writer)
}

fn what_it_pauses(policy: &RolloutPolicy) -> String {
    match is_for_everything(policy) {
        true => "every add-on and set".to_owned(),
        false => subjects(policy).join(", "),
    }
}

fn resume(args: &Args, name: &str) -> Result<Writer, CommandError> {
    let explained = Explained::read(name, &Origin::from_hub(args.write.hub.clone()))?;
    let decisions = explained.rollouts.iter().filter_map(|rollout| rollout.decision.as_ref().ok());
    let quarantined: BTreeSet<String> =
        decisions.filter_map(|decision| Some(decision.quarantine.as_ref()?.0.clone())).collect();
    block_on(async {
        let mut writer = args.write.connect().await?;
        let all = policies(&writer).await?;
        let (everything, named): (Vec<_>, Vec<_>) =
            pausing(&all, name).into_iter().partition(|policy| is_for_everything(policy));
        let released = if args.release { quarantined.clone() } else { BTreeSet::new() };
        if named.is_empty() && released.is_empty() {
            return Err(refusal(name, everything.first().copied(), !quarantined.is_empty()));
        }
        for policy in named {
            edit(&mut writer, policy.name(), |spec| spec.paused = false).await?;
        }
        if !released.is_empty() {
            change(&mut writer, name, PolicyScope::InEffect, |spec| {
                let missing: Vec<_> =
                    released.iter().filter(|one| !spec.released_revisions.contains(one)).cloned().collect();
                spec.released_revisions.extend(missing);
            })
            .await?;
        }
        for revision in &released {
            writer.add_line(format!(
                "revision {} is no longer quarantined",
                explained.named(&Hash(revision.clone()))
            ));
        }
        for policy in &everything {
            writer.add_line(format!("{name} stays paused by RolloutPolicy {}", policy.name()));
        }
        if everything.is_empty() {
            writer.add_line(format!(
                "{name} resumed. Follow it with: wheelwright rollout status {name} --watch"
            ));
        }
        Ok(writer)
    })
}

/// Returns the error if nothing can be resumed for an add-on or set.
fn refusal(name: &str, everything: Option<&RolloutPolicy>, is_quarantined: bool) -> CommandError {
    if let Some(policy) = everything {
        let policy = policy.name();
        let error = anyhow!("{name} is paused by RolloutPolicy {policy}, which applies to everything");
        return CommandError::hinted(error, format!("resume everything: {}", resume_everything(policy)));
    }
    let hint = match is_quarantined {
        false => format!("wheelwright rollout status {name}"),
        true => format!("its revision is quarantined: {}", quarantine_remedy(name)),
    };
    CommandError::hinted(anyhow!("{name} is not paused"), hint)
}
