//! `wheelwright rollout undo`.

use anyhow::anyhow;
use api::gitops::v1alpha1::RolloutStatus;
use object::{Key, Metadata as _};

use super::RolloutName;
use super::policy::{change, remember};
use crate::cli::commands::explain::rollout::Explained;
use crate::cli::origin::Origin;
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;
use crate::cli::writer::WriteArgs;
use crate::cli::{CommandError, CommandResult};
use controllers::hub::policy_change::PolicyScope;
use engine::rollout::RolloutDecision;

/// Take a rollout back: quarantine the revision that is rolled out, so that its clusters return to what succeeded on them before.
///
/// The repository still has the revision. It stays in quarantine until another revision comes or `resume --release` lets it out, so revert
/// or fix the commit too. A cluster on which nothing has succeeded before keeps what it has. A rollout that is done is refused: revert its
/// commit.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    subject: RolloutName,
    #[command(flatten)]
    write: WriteArgs,
}

/// A revision on the clusters of a placement.
#[derive(Clone)]
struct Undone {
    placement: Key,
    revision: String,
    /// The name of the revision for people.
    named: String,
    /// Where and why it failed, if it did.
    failure: String,
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let name = &args.subject.name;
    let explained = Explained::read(name, &Origin::of_hub(args.write.hub.clone()))?;
    let decisions =
        explained.rollouts.iter().filter_map(|rollout| Some((rollout, rollout.decision.as_ref().ok()?)));
    let undone = decisions.clone().filter(|(_, decision)| may_return(decision));
    let undone: Vec<_> = undone
        .map(|(rollout, _)| Undone {
            placement: rollout.placement.clone(),
            revision: rollout.revision.0.clone(),
            named: explained.named(&rollout.revision),
            failure: rollout.failure.clone(),
        })
        .collect();
    if undone.is_empty() {
        if decisions.clone().any(|(_, decision)| decision.counts.is_complete()) {
            let error = anyhow!("the rollout of {name} is done, so no cluster would return");
            return Err(CommandError::hinted(
                error,
                "revert the commit, which rolls the revision before out",
            ));
        }
        let error = anyhow!("{name} has no rollout that could be taken back");
        return Err(CommandError::hinted(error, format!("wheelwright rollout status {name}")));
    }
    block_on(async {
        let mut writer = args.write.connect().await?;
        let is_undone = |revision: &String| undone.iter().any(|one| one.revision == *revision);
        let policy = change(&mut writer, name, PolicyScope::InEffect, |spec| {
            spec.released_revisions.retain(|revision| !is_undone(revision));
        })
        .await?;
        remember(&mut writer, policy.name(), |rollouts| {
            for one in &undone {
                quarantine(rollouts, name, one);
            }
        })
        .await?;
        for one in &undone {
            writer.add_line(format!("revision {} is quarantined on placement {}", one.named, one.placement));
        }
        if policy.spec.paused {
            writer.add_line(format!(
                "{name} is paused: nothing returns before wheelwright rollout resume {name}"
            ));
        }
        writer.add_line(format!("Next: wheelwright rollout status {name} --watch follows the return."));
        writer.add_line("Revert or fix the commit, so that the next revision can be rolled out.");
        writer.finish(ui)
    })
}

/// Returns whether clusters may return from a revision. What is done on all of them is what they return to.
fn may_return(decision: &RolloutDecision) -> bool {
    decision.quarantine.is_none() && !decision.counts.is_complete()
}

fn quarantine(rollouts: &mut Vec<RolloutStatus>, subject: &str, undone: &Undone) {
    let Undone { placement: Key { namespace, name }, revision, named: _, failure } = undone;
    let (add_on, replica_set) = if subject.contains('/') { ("", subject) } else { (subject, "") };
    let is_it = |one: &RolloutStatus| {
        (one.add_on.as_str(), one.replica_set.as_str()) == (add_on, replica_set)
            && (&one.placement_namespace, &one.placement_name) == (namespace, name)
    };
    if let Some(present) = rollouts.iter_mut().find(|rollout| is_it(rollout)) {
        present.quarantined.clone_from(revision);
        present.failure.clone_from(failure);
        return;
    }
    rollouts.push(RolloutStatus {
        add_on: add_on.into(),
        replica_set: replica_set.into(),
        placement_namespace: namespace.clone(),
        placement_name: name.clone(),
        revision: revision.clone(),
        quarantined: revision.clone(),
        failure: failure.clone(),
        ..RolloutStatus::default()
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::rollout::decision::Counts;

    #[test]
    fn only_a_rollout_that_is_under_way_is_taken_back() {
        let decision = |done, quarantine: Option<&str>| RolloutDecision {
            counts: Counts { total: 2, done, ..Counts::default() },
            quarantine: quarantine.map(Into::into),
            ..RolloutDecision::default()
        };
        assert!(may_return(&decision(1, None)));
        assert!(!may_return(&decision(2, None)), "they would return to the same revision");
        assert!(!may_return(&decision(1, Some("bad"))), "it is taken back already");
    }
}
