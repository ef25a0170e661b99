//! `wheelwright rollout undo`.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::anyhow;
use api::gitops::v1alpha1::{RolloutPolicy, RolloutPolicySpec, RolloutStatus};
use object::{Key, Metadata as _};

use super::RolloutName;
use super::policy::{change, edit, policies, remember};
use crate::cli::commands::explain::rollout::Explained;
use crate::cli::origin::Origin;
use crate::cli::output::Ui;
use crate::cli::runtime::block_on;
use crate::cli::writer::WriteArgs;
use crate::cli::{CommandError, CommandResult};
use crate::shell::now;
use controllers::hub::policy_change::{PolicyScope, all_for, pausing};
use engine::plural::counted;
use engine::rollout::cluster::{Cluster, Hash};
use engine::rollout::{self, ClusterState, Input, RolloutDecision};

/// Take a rollout back: quarantine the revision that is rolled out, so that its clusters return to what succeeded on them before.
///
/// It takes effect at once, and the answer names the clusters that have nothing to return to: they keep the revision. The repository still
/// has it. It stays in quarantine until another revision comes or `resume --release` lets it out, so revert or fix the commit too. A
/// rollout that is done is refused: revert its commit.
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
    effect: Effect,
}

/// The clusters that an undo concerns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Effect {
    /// Those that leave the revision.
    returning: Vec<String>,
    /// Those that keep it, because nothing succeeded on them before.
    kept: Vec<String>,
    /// The number of those that never got it.
    spared: usize,
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> CommandResult {
    let name = &args.subject.name;
    let explained = Explained::read(name, &Origin::of_hub(args.write.hub.clone()))?;
    let undone = choose(&explained, name)?;
    block_on(async {
        let mut writer = args.write.connect().await?;
        let is_undone = |revision: &String| undone.iter().any(|one| one.revision == *revision);
        let take_back = |spec: &mut RolloutPolicySpec| {
            spec.released_revisions.retain(|revision| !is_undone(revision));
        };
        let policy = change(&mut writer, name, PolicyScope::InEffect, take_back).await?;
        let others = policies(&writer).await?;
        let releases = |policy: &&RolloutPolicy| policy.spec.released_revisions.iter().any(is_undone);
        for other in all_for(&others, name).into_iter().filter(releases) {
            edit(&mut writer, other.name(), take_back).await?;
        }
        remember(&mut writer, policy.name(), |rollouts| {
            for one in &undone {
                quarantine(rollouts, name, one);
            }
        })
        .await?;
        for Undone { placement, named, effect, .. } in &undone {
            writer.add_line(format!("revision {named} is quarantined on placement {placement}"));
            effect.lines().for_each(|line| writer.add_line(line));
        }
        for pausing in pausing(&others, name) {
            writer.add_line(format!(
                "RolloutPolicy {} pauses {name}: nothing returns until the pause ends",
                pausing.name()
            ));
        }
        writer.add_line(format!("Next: wheelwright rollout status {name} --watch follows the return."));
        writer.add_line("Revert or fix the commit, so that the next revision can be rolled out.");
        writer.finish(ui)
    })
}

/// Returns the placements on which the revision is quarantined: those whose rollout is under way, and those
/// without clusters that would get the same revision later.
fn choose(explained: &Explained, name: &str) -> Result<Vec<Undone>, CommandError> {
    let decided = explained.rollouts.iter().filter_map(|rollout| {
        let (input, decision) = (rollout.input.as_ref()?, rollout.decision.as_ref().ok()?);
        Some((rollout, input, decision, rollout::undone(input, now())))
    });
    let decided: Vec<_> = decided.collect();
    let under_way = decided.iter().filter(|(_, _, decision, undone)| may_return(decision, undone));
    let revisions: BTreeSet<&Hash> = under_way.map(|(rollout, ..)| &rollout.revision).collect();
    if revisions.is_empty() {
        let has_clusters =
            |(_, _, decision, _): &&(_, _, &Arc<RolloutDecision>, _)| decision.counts.total > 0;
        let is_open = |(_, _, decision, _): &(_, _, &Arc<RolloutDecision>, _)| decision.quarantine.is_none();
        if decided.iter().any(|one| has_clusters(&one) && is_open(one)) {
            let error = anyhow!("the rollout of {name} is done, so no cluster would return");
            let hint = "revert the commit, which rolls the revision before out";
            return Err(CommandError::hinted(error, hint));
        }
        let error = anyhow!("{name} has no rollout that could be taken back");
        return Err(CommandError::hinted(error, format!("wheelwright rollout status {name}")));
    }
    let is_undone = |decision: &RolloutDecision, undone: &RolloutDecision, revision: &Hash| {
        may_return(decision, undone) || decision.counts.total == 0 && revisions.contains(revision)
    };
    let undone = decided
        .iter()
        .filter(|(rollout, _, decision, undone)| is_undone(decision, undone, &rollout.revision));
    Ok(undone
        .map(|(rollout, input, _, undone)| Undone {
            placement: rollout.placement.clone(),
            revision: rollout.revision.0.clone(),
            named: explained.named(&rollout.revision),
            failure: rollout.failure.clone(),
            effect: Effect::of(input, undone),
        })
        .collect())
}

/// Returns whether a quarantine would concern a cluster. What is done on all of them is what they return to.
fn may_return(decision: &RolloutDecision, undone: &RolloutDecision) -> bool {
    decision.quarantine.is_none()
        && !decision.counts.is_complete()
        && undone.clusters.values().any(|assignment| assignment.state.is_quarantined())
}

impl Effect {
    fn of(input: &Input, undone: &RolloutDecision) -> Self {
        let mut effect = Self::default();
        let has_it = |cluster: &&Cluster| cluster.runs.as_ref() == Some(&cluster.wants);
        let has_it: BTreeSet<&str> =
            input.clusters.iter().filter(has_it).map(|cluster| cluster.name.as_str()).collect();
        for (name, assignment) in &undone.clusters {
            match &assignment.state {
                state if !state.is_quarantined() => {}
                ClusterState::Returning { .. } if has_it.contains(name.as_str()) => {
                    effect.returning.push(name.clone());
                }
                _ if has_it.contains(name.as_str()) => effect.kept.push(name.clone()),
                _ => effect.spared += 1,
            }
        }
        effect
    }

    fn lines(&self) -> impl Iterator<Item = String> {
        let Self { returning, kept, spared } = self;
        let listed = |names: &[String]| format!("{}: {}", counted(names.len(), "cluster"), names.join(", "));
        let returns = (!returning.is_empty()).then(|| format!("  returning: {}", listed(returning)));
        let keeps = (!kept.is_empty())
            .then(|| format!("  nothing succeeded before, so the revision stays on {}", listed(kept)));
        let spared = (*spared > 0).then(|| format!("  {} never got it", counted(spared, "cluster")));
        returns.into_iter().chain(keeps).chain(spared)
    }
}

fn quarantine(rollouts: &mut Vec<RolloutStatus>, subject: &str, undone: &Undone) {
    let Undone { placement: Key { namespace, name }, revision, named: _, failure, effect: _ } = undone;
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
    use engine::rollout::cluster::Group;
    use engine::rollout::strategy::{Progressive, Strategy};

    fn input(clusters: &[(&str, &str, Option<&str>)]) -> Input {
        let mut input = Input::new("r2", Ok(Strategy::Progressive(Progressive::default())));
        let names = clusters.iter().map(|(name, ..)| (*name).to_owned()).collect();
        input.groups = vec![Group { clusters: names, ..Group::default() }];
        let cluster = |(name, runs, good): &(&str, &str, Option<&str>)| Cluster {
            name: (*name).into(),
            wants: "r2".into(),
            runs: Some((*runs).into()),
            last_good: good.map(Into::into),
            ..Cluster::default()
        };
        input.clusters = clusters.iter().map(cluster).collect();
        input
    }

    #[test]
    fn only_a_rollout_that_is_under_way_is_taken_back() {
        let now = jiff::Timestamp::UNIX_EPOCH;
        let check = |clusters: &[(&str, &str, Option<&str>)], expected: bool| {
            let input = input(clusters);
            let (decision, undone) = (rollout::advance(&input, now), rollout::undone(&input, now));
            assert_eq!(may_return(&decision, &undone), expected, "{clusters:?}");
        };
        check(&[("a", "r2", Some("r1"))], true);
        check(&[("a", "r2", None)], true);
        check(&[("a", "r2", Some("r2")), ("b", "r1", Some("r2"))], false);
        check(&[], false);
    }

    #[test]
    fn the_answer_names_the_clusters_that_return_and_those_that_cannot() {
        let input = input(&[("a", "r2", Some("r1")), ("b", "r2", None), ("c", "r1", Some("r1"))]);
        let effect = Effect::of(&input, &rollout::undone(&input, jiff::Timestamp::UNIX_EPOCH));
        let lines: Vec<String> = effect.lines().collect();
        assert_eq!(
            lines,
            [
                "  returning: 1 cluster: a",
                "  nothing succeeded before, so the revision stays on 1 cluster: b",
                "  1 cluster never got it"
            ]
        );
    }
}
