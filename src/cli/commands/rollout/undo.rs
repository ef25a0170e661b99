//! `wheelwright rollout undo`.

use anyhow::anyhow;
use api::gitops::v1alpha1::RolloutPolicySpec;
use object::Metadata as _;

use super::RolloutName;
use super::policy::{change, edit, policies, remember};
use crate::cli::commands::explain::rollout::Explained;
use crate::cli::origin::Origin;
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;
use crate::cli::writer::WriteArgs;
use crate::cli::{CommandError, CommandResult};
use crate::shell::now;
use controllers::policy_change::{PolicyScope, pausing};
use controllers::undo::{self, NoUndo, Undo, UndoEffect, quarantine, releasing, undo_of};
use engine::plural::counted;

/// The minimum number of digits of a hash.
const MIN_DIGITS: usize = 8;

/// Undo a rollout: quarantine its revision, so that its clusters return to what last succeeded on them.
///
/// The command takes effect immediately. The answer names the clusters that have nothing to return to and
/// keep the revision. The repository still contains the revision, so also revert or fix the commit. The
/// revision stays in quarantine until another one follows, or until `resume --release` releases it. If the
/// rollout is done, the command refuses: revert the commit instead.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    subject: RolloutName,
    /// Hash of the revision to undo, as `wheelwright explain rollout` prints it, or its first digits. The command
    /// refuses if the rollout has another revision. If placements have different ones, name each.
    #[arg(long, value_name = "HASH", value_delimiter = ',')]
    revision: Vec<String>,
    #[command(flatten)]
    write: WriteArgs,
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let name = &args.subject.name;
    let explained = Explained::read(name, &Origin::from_hub(args.write.hub.clone()))?;
    let undo = undo_of(&explained.rollouts, |revision| explained.named(revision), now())
        .map_err(|error| refusal(error, name))?;
    check(&undo, &args.revision, name)?;
    block_on(async {
        let mut writer = args.write.connect().await?;
        let take_back = |spec: &mut RolloutPolicySpec| undo::take_back(&undo, spec);
        let policy = change(&mut writer, name, PolicyScope::InEffect, take_back).await?;
        let others = policies(&writer).await?;
        for other in releasing(&others, name, &undo) {
            edit(&mut writer, other.name(), take_back).await?;
        }
        remember(&mut writer, policy.name(), |rollouts| quarantine(&undo, name, rollouts)).await?;
        for Undo { placement, named, effect, .. } in &undo {
            writer.add_line(format!("revision {named} is quarantined on placement {placement}"));
            lines(effect).for_each(|line| writer.add_line(line));
        }
        for pausing in pausing(&others, name) {
            writer.add_line(format!(
                "RolloutPolicy {} pauses {name}: no cluster returns until the pause ends",
                pausing.name()
            ));
        }
        writer.add_line(format!("Next: wheelwright rollout status {name} --watch follows the return."));
        writer.add_line("Revert or fix the commit, so that the next revision can be rolled out.");
        writer.finish(ui)
    })
}

/// Refuses to undo a revision that is not one of the given ones. Without these, every revision is undone.
fn check(undo: &[Undo], given: &[String], name: &str) -> Result<(), CommandError> {
    let is_given = |undo: &Undo| {
        given.iter().any(|given| given.len() >= MIN_DIGITS && undo.revision.0.starts_with(given))
    };
    match undo.iter().find(|undo| !is_given(undo)) {
        Some(Undo { placement, named, .. }) if !given.is_empty() => Err(CommandError::hinted(
            anyhow!(
                "the rollout of {name} on placement {placement} has revision {named}, not {}",
                given.join(" or ")
            ),
            format!("wheelwright explain rollout {name}"),
        )),
        _ => Ok(()),
    }
}

/// Returns the error for a rollout that cannot be undone, with an alternative.
fn refusal(reason: NoUndo, name: &str) -> CommandError {
    match reason {
        NoUndo::Done => CommandError::hinted(
            anyhow!("the rollout of {name} is complete, so there is nothing to undo"),
            "revert the commit to roll out the previous revision",
        ),
        NoUndo::NoRollout => CommandError::hinted(
            anyhow!("{name} has no rollout to undo"),
            format!("wheelwright rollout status {name}"),
        ),
    }
}

fn lines(effect: &UndoEffect) -> impl Iterator<Item = String> {
    let UndoEffect { returning, kept, spared } = effect;
    let listed = |names: &[String]| format!("{}: {}", counted(names.len(), "cluster"), names.join(", "));
    let returns = returning.iter().map(move |(to, names)| format!("  returning to {to}: {}", listed(names)));
    let keeps = (!kept.is_empty())
        .then(|| format!("  nothing succeeded before, so the revision stays on {}", listed(kept)));
    let spared = (*spared > 0).then(|| format!("  {} never received it", counted(*spared, "cluster")));
    returns.chain(keeps).chain(spared)
}

#[cfg(test)]
mod tests {
    use engine::rollout::cluster::Hash;
    use object::Key;

    use super::*;

    #[test]
    fn a_rollout_with_another_revision_is_not_undone() {
        let undo = ["0123456789abcdef", "fedcba9876543210"].map(|digits| Undo {
            placement: Key::namespaced("fleet", digits),
            revision: Hash(digits.repeat(4)),
            named: format!("proxy-2 ({digits})"),
            failure: String::new(),
            effect: UndoEffect::default(),
        });
        let check = |given: &[&str]| {
            let given: Vec<String> = given.iter().map(|&hash| hash.to_owned()).collect();
            check(&undo, &given, "proxy").map_err(|error| format!("{error:?}"))
        };
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(check(&["01234567", "fedcba987654"]), Ok(()));
        let error = check(&["01234567"]).unwrap_err();
        let expected =
            "placement fleet/fedcba9876543210 has revision proxy-2 (fedcba9876543210), not 01234567";
        assert!(error.contains(expected), "{error}");
        assert!(check(&["0123", "fedc"]).is_err(), "too few digits");
    }

    #[test]
    fn the_answer_names_the_clusters_that_return_and_those_that_cannot() {
        let returning = [("proxy-1".to_owned(), vec!["a".to_owned()])].into();
        let effect = UndoEffect { returning, kept: vec!["b".into()], spared: 1 };
        let lines: Vec<String> = lines(&effect).collect();
        assert_eq!(
            lines,
            [
                "  returning to proxy-1: 1 cluster: a",
                "  nothing succeeded before, so the revision stays on 1 cluster: b",
                "  1 cluster never received it"
            ]
        );
    }
}
