//! Properties of every decision over random inputs.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use proptest::sample::{Index, subsequence};
use proptest::strategy::Strategy as Strategy2;
use proptest::test_runner::RngSeed;

use crate::rollout::cluster::{Cluster, Group, GroupKey, Hash, Health, Instance, Report};
use crate::rollout::policy::{Approval, Joining, OnBreach, Superseding};
use crate::rollout::strategy::{All, Mandatory, Options, Progressive, ProgressivePerGroup};
use crate::rollout::{ClusterState, Input, Policy, RolloutDecision, Size, Strategy, advance, oracle};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn hash() -> impl Strategy2<Value = Hash> {
    (0..3u8).prop_map(|revision| Hash(format!("r{revision}")))
}

fn span() -> impl Strategy2<Value = SignedDuration> {
    prop_oneof![Just(SignedDuration::ZERO), (1..300i64).prop_map(SignedDuration::from_secs)]
}

fn moment() -> impl Strategy2<Value = Option<Timestamp>> {
    prop::option::of((-400..100i64).prop_map(|seconds| Timestamp::from_second(seconds).unwrap()))
}

fn size() -> impl Strategy2<Value = Size> {
    prop_oneof![(0..6u32).prop_map(Size::Count), (0..=100u32).prop_map(Size::Percent)]
}

pub(super) fn strategy() -> impl Strategy2<Value = Strategy> {
    // A deadline of zero fails clusters as they start, so there would be no fixpoint.
    let deadline = || prop::option::of((1..300i64).prop_map(SignedDuration::from_secs));
    let options = (span(), deadline(), size()).prop_map(|(soak, deadline, failures)| Options {
        soak,
        deadline,
        failures,
    });
    let mandatory = prop::collection::vec(
        prop_oneof![
            (0..5i32).prop_map(Mandatory::Index),
            (0..5u8).prop_map(|n| Mandatory::Name(format!("g{n}")))
        ],
        0..3,
    );
    (0..3u8, options, mandatory, prop::option::of(size())).prop_map(
        |(kind, options, mandatory, concurrency)| match kind {
            0 => Strategy::All(All { deadline: options.deadline }),
            1 => Strategy::Progressive(Progressive { options, mandatory, concurrency }),
            _ => Strategy::ProgressivePerGroup(ProgressivePerGroup { options, mandatory }),
        },
    )
}

pub(super) fn policy() -> impl Strategy2<Value = Policy> {
    let flags =
        (prop::bool::weighted(0.1), any::<bool>(), any::<bool>(), any::<bool>(), prop::bool::weighted(0.2));
    let spans = (span(), span(), span());
    (flags, spans, size(), size()).prop_map(|(flags, spans, unreachable, removals)| {
        let (soak, group_soak, removal_window) = spans;
        let (paused, rollback, finish, last_good, approvals) = flags;
        Policy {
            paused,
            on_breach: if rollback { OnBreach::Rollback } else { OnBreach::Pause },
            superseding: if finish { Superseding::FinishCurrent } else { Superseding::Latest },
            approval: Approval { between_groups: approvals, ..Approval::default() },
            joining: if last_good { Joining::LastGood } else { Joining::InTurn },
            soak,
            group_soak,
            unreachable,
            removals,
            removal_window,
            ..Policy::default()
        }
    })
}

pub(super) fn cluster(name: usize) -> impl Strategy2<Value = Cluster> {
    let report = prop_oneof![
        Just(Report::ToApply),
        Just(Report::Progressing),
        Just(Report::Succeeded),
        Just(Report::Failed),
        prop::bool::ANY.prop_map(|failed| Report::Relapsed { failed }),
        Just(Report::TimeOut)
    ];
    let health = prop::option::of((hash(), report, moment()).prop_map(|(of, report, since)| Health {
        of,
        report,
        since,
    }));
    let flags = (
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.05),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.3),
    );
    (
        hash(),
        prop::option::of(hash()),
        moment(),
        health,
        prop::option::of(hash()),
        flags,
        (moment(), moment(), moment()),
    )
        .prop_map(
            move |(
                wants,
                runs,
                runs_since,
                health,
                last_good,
                (unreachable, skip, is_refused, is_decided, recovered),
                (answers_since, joined, refused_since),
            )| Cluster {
                name: format!("c{name:02}"),
                wants,
                runs,
                runs_since,
                health,
                last_good,
                unreachable,
                answers_since,
                refused_since: refused_since.filter(|_| is_refused),
                // No cluster joins in the future.
                joined: joined.min(Some(NOW)),
                recovered,
                skip,
                instance: Instance { uid: String::new(), is_decided },
            },
        )
}

pub(super) fn input() -> impl Strategy2<Value = Input> {
    let clusters = (0..14usize).map(cluster).collect::<Vec<_>>();
    let groups = prop::collection::vec((0..6i32, subsequence((0..14usize).collect::<Vec<_>>(), 0..8)), 0..5);
    let recent = prop::collection::btree_map(0..14usize, -400..100i64, 0..5);
    (
        strategy(),
        policy(),
        groups,
        clusters,
        subsequence((0..14usize).collect::<Vec<_>>(), 0..14),
        prop::option::of(hash()),
        (moment(), recent),
    )
        .prop_map(|(strategy, policy, groups, clusters, known, quarantined, (late_since, recent))| {
            let mut input = Input::new("r2", Ok(strategy));
            let group = |(index, names): (i32, Vec<usize>)| Group {
                key: GroupKey { index, name: format!("g{index}") },
                clusters: names.into_iter().map(|name| format!("c{name:02}")).collect(),
            };
            input.groups = groups.into_iter().map(group).collect();
            input.clusters = clusters
                .into_iter()
                .enumerate()
                .filter(|(at, _)| known.contains(at))
                .map(|(_, c)| c)
                .collect();
            input.policy = Ok(policy);
            (input.quarantined, input.late_since) = (quarantined, late_since);
            let removed = |(name, second)| (format!("c{name:02}"), Timestamp::from_second(second).unwrap());
            input.recent_removals = recent.into_iter().map(removed).collect();
            input
        })
}

/// Returns the input after the decision was written.
fn written(input: &Input) -> Input {
    let decision = advance(input, NOW);
    let mut next = input.clone();
    (next.quarantined, next.late_since) = (decision.quarantine.clone(), decision.late_since);
    next.clusters.retain(|cluster| !decision.removed.contains(&cluster.name));
    next.recent_removals.extend(decision.counted.iter().map(|name| (name.clone(), NOW)));
    for (name, assignment) in &decision.clusters {
        let Some(cluster) = next.clusters.iter_mut().find(|cluster| cluster.name == *name) else {
            if assignment.assigned.is_some() {
                let (runs, wants) = (assignment.assigned.clone(), input.revision.clone());
                next.clusters.push(Cluster {
                    name: name.clone(),
                    wants,
                    runs,
                    runs_since: Some(NOW),
                    ..Cluster::default()
                });
            }
            continue;
        };
        if cluster.runs != assignment.assigned {
            cluster.runs = assignment.assigned.clone();
            cluster.runs_since = Some(NOW);
            cluster.health = None;
        }
    }
    next
}

fn shuffled<T: Clone>(list: &[T], order: &[Index]) -> Vec<T> {
    let mut rest = list.to_vec();
    let mut shuffled = Vec::new();
    for index in order.iter().cycle().take(list.len()) {
        shuffled.push(rest.remove(index.index(rest.len())));
    }
    shuffled
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default()
    })]

    #[test]
    fn the_order_of_the_input_means_nothing(
        input in input(),
        order in prop::collection::vec(any::<Index>(), 20),
    ) {
        let mut other = input.clone();
        other.clusters = shuffled(&input.clusters, &order);
        other.groups = shuffled(&input.groups, &order);
        for group in &mut other.groups {
            group.clusters = shuffled(&group.clusters, &order);
        }
        prop_assert_eq!(advance(&input, NOW), advance(&other, NOW));
    }

    #[test]
    fn asking_again_after_writing_changes_nothing(input in input()) {
        let next = written(&input);
        let again = advance(&next, NOW);
        for (name, assignment) in &again.clusters {
            let cluster = next.clusters.iter().find(|cluster| cluster.name == *name);
            let runs = cluster.and_then(|cluster| cluster.runs.clone());
            prop_assert_eq!(&assignment.assigned, &runs, "{}: {}", name, assignment.state);
        }
        prop_assert!(again.removed.is_empty());
        prop_assert_eq!(again.quarantine, next.quarantined);
        prop_assert_eq!(again.late_since, next.late_since);
    }

    #[test]
    fn every_promise_is_kept(input in input()) {
        let checked = oracle::check(&input, &advance(&input, NOW), NOW);
        prop_assert!(checked.is_ok(), "{:?}", checked);
    }

    #[test]
    fn every_cluster_has_a_verdict_and_every_count_is_right(input in input()) {
        let decision = advance(&input, NOW);
        let named: BTreeSet<_> = input.groups.iter().flat_map(|group| &group.clusters).collect();
        prop_assert_eq!(decision.clusters.keys().collect::<BTreeSet<_>>(), named);
        let c = decision.counts;
        let started = c.done + c.soaking + c.progressing + c.failed + c.timed_out + c.starting;
        let returns = c.returning + c.returned + c.quarantined;
        let parts = started + c.waiting + c.skipped + c.unreachable + returns;
        prop_assert_eq!(parts, c.total);
        prop_assert_eq!(decision.stages.iter().map(|stage| stage.clusters).sum::<usize>(), c.total);
        for assignment in decision.clusters.values() {
            prop_assert!(!assignment.state.to_string().is_empty());
        }
    }

    #[test]
    fn an_assignment_is_never_invented(input in input()) {
        let decision = advance(&input, NOW);
        for (name, assignment) in &decision.clusters {
            let cluster = input.clusters.iter().find(|cluster| cluster.name == *name);
            let runs = cluster.and_then(|cluster| cluster.runs.clone());
            let wants = cluster.map_or(&input.revision, |cluster| &cluster.wants);
            let good = cluster.and_then(|cluster| cluster.last_good.clone());
            let assigned = &assignment.assigned;
            let is_known = *assigned == runs || assigned.as_ref() == Some(wants) || *assigned == good;
            // A cluster without a revision gets the one that all others return to.
            let is_good = runs.is_none() && input.clusters.iter().any(|other| other.last_good == *assigned);
            prop_assert!(is_known || is_good);
            prop_assert!(runs.is_none() || assigned.is_some(), "a cluster of a group keeps its content");
        }
    }

    #[test]
    fn nothing_changes_before_the_recheck(input in input(), part in 0.0..1.0f64) {
        let mut input = input;
        for cluster in &mut input.clusters {
            // If no time is known, the engine uses the current time in every pass.
            cluster.runs_since.get_or_insert(NOW - SignedDuration::from_secs(50));
        }
        input.late_since = Some(input.late_since.unwrap_or(NOW).min(NOW));
        let decision = advance(&input, NOW);
        let end = decision.recheck.map_or(1000, |at| at.duration_since(NOW).as_secs());
        let sooner = NOW + SignedDuration::from_secs(((end - 1).max(0) as f64 * part) as i64);
        let later = advance(&input, sooner);
        let decided = |decision: &RolloutDecision| -> Vec<_> {
            let clusters = decision.clusters.values();
            clusters.map(|cluster| (cluster.state.word(), cluster.assigned.clone())).collect()
        };
        prop_assert_eq!(decided(&later), decided(&decision));
        prop_assert_eq!(later.breach, decision.breach);
        prop_assert_eq!(later.quarantine, decision.quarantine);
        prop_assert_eq!(later.removed, decision.removed);
    }
}

/// Returns an input with each cluster in the group of the given index.
fn known(strategy: Strategy, clusters: impl IntoIterator<Item = (i32, Cluster)>) -> Input {
    let mut input = Input::new("r2", Ok(strategy));
    for (index, cluster) in clusters {
        input.groups.push(Group {
            key: GroupKey { index, name: format!("g{index}") },
            clusters: vec![cluster.name.clone()],
        });
        input.clusters.push(cluster);
    }
    input
}

/// Found by the properties above: the cluster is done when its soak is over, but no recheck was scheduled for
/// that time.
#[test]
fn a_silent_cluster_that_succeeded_is_checked_when_its_soak_ends() {
    let soak = SignedDuration::from_secs(60);
    let options = Options { soak, ..Options::default() };
    let strategy = Strategy::Progressive(Progressive { options, ..Progressive::default() });
    let health = Some(Health { of: "r2".into(), report: Report::Succeeded, since: Some(NOW) });
    let runs = Some("r2".into());
    let silent = Cluster {
        name: "a".into(),
        wants: "r2".into(),
        runs,
        health,
        unreachable: true,
        ..Cluster::default()
    };
    let input = known(strategy, [(0, silent)]);
    let decision = advance(&input, NOW);
    assert_eq!((decision.counts.unreachable, decision.recheck), (1, Some(NOW + soak)));
    assert_eq!(advance(&input, NOW + soak).counts.done, 1);
}

/// Found by the properties above: the deadlines of clusters that count towards a breach were ignored if they
/// were shown as quarantined.
#[test]
fn a_breach_is_counted_again_at_the_deadlines_of_what_it_counts() {
    let deadline = SignedDuration::from_secs(10);
    let options = Options { deadline: Some(deadline), ..Options::default() };
    let strategy = Strategy::Progressive(Progressive { options, ..Progressive::default() });
    let moved = |name: &str, ago: i64| {
        let runs_since = Some(NOW - SignedDuration::from_secs(ago));
        let (wants, last_good) = (Hash::from("r2"), Some("r1".into()));
        Cluster {
            name: name.into(),
            runs: Some(wants.clone()),
            wants,
            runs_since,
            last_good,
            ..Cluster::default()
        }
    };
    let mut input = known(strategy, [(0, moved("a", 20)), (0, moved("b", 5))]);
    input.policy = Ok(Policy { on_breach: OnBreach::Rollback, ..Policy::default() });
    input.late_since = Some(NOW - deadline);
    let failures = |now| advance(&input, now).breach.map(|breach| breach.failures);
    let decision = advance(&input, NOW);
    assert_eq!(
        (failures(NOW), decision.counts.returning, decision.recheck),
        (Some(1), 2, Some(NOW + SignedDuration::from_secs(5)))
    );
    assert_eq!(failures(NOW + SignedDuration::from_secs(5)), Some(2));
}

#[test]
fn a_quarantine_moves_no_cluster_that_is_skipped_or_for_which_the_revision_is_good() {
    let cluster = |name: &str, skip: bool, good: &str| Cluster {
        name: name.into(),
        wants: "r2".into(),
        runs: Some("r2".into()),
        last_good: Some(good.into()),
        skip,
        ..Cluster::default()
    };
    let clusters =
        [cluster("fails", false, "r1"), cluster("skipped", true, "r1"), cluster("good", false, "r2")];
    let mut input = known(Strategy::All(All::default()), clusters.map(|cluster| (0, cluster)));
    input.policy = Ok(Policy { on_breach: OnBreach::Rollback, ..Policy::default() });
    input.quarantined = Some("r2".into());
    let decision = advance(&input, NOW);
    let assigned = |name: &str| decision.clusters[name].assigned.clone();
    assert_eq!(["fails", "skipped", "good"].map(assigned), ["r1", "r2", "r2"].map(|hash| Some(hash.into())));
    assert_eq!(decision.clusters["skipped"].state, ClusterState::Skipped);
}
