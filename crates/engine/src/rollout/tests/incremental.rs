//! The incremental rollout gives the same results as `advance`, whatever happens between two decisions.

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use proptest::strategy::Strategy as Strategy2;
use proptest::test_runner::RngSeed;

use super::properties::{cluster, input, policy, strategy};
use crate::rollout::cluster::{Cluster, Group, Health, Report};
use crate::rollout::strategy::{Options, Progressive};
use crate::rollout::{IncrementalRollout, Input, Policy, Strategy, advance};

/// A change before a decision.
#[derive(Clone, Debug)]
enum Event {
    /// A cluster is replaced.
    Cluster(Cluster),
    Strategy(Strategy),
    Policy(Policy),
    /// The caller records the quarantine and the breach of the decision.
    Recorded,
    /// The clusters run their assignments from now on.
    Written,
    Seconds(i64),
}

fn event() -> impl Strategy2<Value = Event> {
    prop_oneof![
        8 => (0..14usize).prop_flat_map(cluster).prop_map(Event::Cluster),
        1 => strategy().prop_map(Event::Strategy),
        1 => policy().prop_map(Event::Policy),
        1 => Just(Event::Recorded),
        2 => Just(Event::Written),
        4 => (0..200i64).prop_map(Event::Seconds),
        1 => Just(Event::Seconds(-10)),
    ]
}

/// Applies a decision about the input to its clusters.
fn written(rollout: &mut IncrementalRollout, input: &mut Input, now: Timestamp) {
    for (name, assignment) in &advance(input, now).clusters {
        let Some(cluster) = input.clusters.iter_mut().find(|cluster| cluster.name == *name) else { continue };
        if cluster.runs != assignment.assigned {
            (cluster.runs, cluster.runs_since) = (assignment.assigned.clone(), Some(now));
            assert!(rollout.set_cluster(cluster.clone()), "{name} is a cluster of the input");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, rng_seed: RngSeed::Fixed(1), cases: 1024, ..ProptestConfig::default()
    })]

    #[test]
    fn every_incremental_decision_equals_a_full_one(
        input in input(),
        events in prop::collection::vec(event(), 1..12),
    ) {
        let (mut input, mut now) = (input, Timestamp::UNIX_EPOCH);
        let mut rollout = IncrementalRollout::new(input.clone());
        for event in events {
            match event.clone() {
                Event::Cluster(cluster) => {
                    let current = input.clusters.iter_mut().find(|other| other.name == cluster.name);
                    prop_assert_eq!(rollout.set_cluster(cluster.clone()), current.is_some());
                    current.into_iter().for_each(|current| *current = cluster.clone());
                }
                Event::Strategy(strategy) => input.strategy = Ok(strategy),
                Event::Policy(policy) => input.policy = Ok(policy),
                Event::Recorded => {
                    let decision = advance(&input, now);
                    (input.quarantined, input.late_since) = (decision.quarantine, decision.late_since);
                }
                Event::Written => written(&mut rollout, &mut input, now),
                Event::Seconds(seconds) => now += SignedDuration::from_secs(seconds),
            }
            rollout.set_rules(input.clone());
            let (expected, decided) = (advance(&input, now), rollout.advance(now));
            prop_assert_eq!(&*decided, &expected, "after {:?}", event);
            let runs = |name: &str| input.clusters.iter().find(|cluster| cluster.name == name)?.runs.clone();
            let moves = expected.clusters.iter().filter(|(name, cluster)| cluster.assigned != runs(name));
            prop_assert!(rollout.moves().eq(moves.map(|(name, _)| name.as_str())), "after {:?}", event);
        }
    }
}

/// Returns a rollout of the revision `r2` over the cluster `a`, which runs it.
fn one_cluster(options: Options, cluster: Cluster) -> IncrementalRollout {
    let strategy = Strategy::Progressive(Progressive { options, ..Progressive::default() });
    let mut input = Input::new("r2", Ok(strategy));
    input.groups = vec![Group { clusters: vec!["a".into()], ..Group::default() }];
    input.clusters =
        vec![Cluster { name: "a".into(), wants: "r2".into(), runs: Some("r2".into()), ..cluster }];
    IncrementalRollout::new(input)
}

#[test]
fn a_silent_cluster_that_succeeded_is_judged_again_when_its_soak_is_over() {
    let soak = SignedDuration::from_secs(60);
    let now = Timestamp::UNIX_EPOCH;
    let health = Some(Health { of: "r2".into(), report: Report::Succeeded, since: Some(now) });
    let cluster = Cluster { health, unreachable: true, ..Cluster::default() };
    let mut rollout = one_cluster(Options { soak, ..Options::default() }, cluster);
    assert_eq!(rollout.advance(now).counts.unreachable, 1);
    assert_eq!(rollout.advance(now + soak).counts.done, 1);
}

#[test]
fn a_state_ends_at_its_exact_time_and_begins_again_if_the_clock_goes_back() {
    let soak = SignedDuration::from_secs(60);
    let now = Timestamp::UNIX_EPOCH;
    let health = Some(Health { of: "r2".into(), report: Report::Succeeded, since: Some(now) });
    let mut rollout =
        one_cluster(Options { soak, ..Options::default() }, Cluster { health, ..Cluster::default() });
    let mut done = |second| rollout.advance(now + SignedDuration::from_secs(second)).counts.done;
    assert_eq!([done(0), done(59), done(60), done(59)], [0, 0, 1, 0]);
}

#[test]
fn a_deadline_without_a_known_start_counts_from_each_decision() {
    let deadline = Some(SignedDuration::from_secs(60));
    for report in [Report::Progressing, Report::Failed] {
        let health = Some(Health { of: "r2".into(), report, since: None });
        let cluster = Cluster { health, ..Cluster::default() };
        let mut rollout = one_cluster(Options { deadline, ..Options::default() }, cluster);
        for second in [0, 30, 60, 90] {
            let now = Timestamp::from_second(second).unwrap();
            let expected = advance(rollout.input(), now);
            assert_eq!(*rollout.advance(now), expected, "{report:?} at {second}");
        }
    }
}

#[test]
fn the_clusters_of_a_rollout_are_found_by_name_and_returned() {
    let mut rollout = one_cluster(Options::default(), Cluster::default());
    let moved = Cluster { runs: None, ..rollout.cluster("a").unwrap().clone() };
    assert!(rollout.cluster("b").is_none() && !rollout.is_moved("a"), "nothing is decided yet");
    rollout.advance(Timestamp::UNIX_EPOCH);
    assert!(!rollout.is_moved("a"), "it runs what it is assigned");
    rollout.set_cluster(moved.clone());
    rollout.advance(Timestamp::UNIX_EPOCH);
    assert!(rollout.is_moved("a") && !rollout.is_moved("b"));
    assert_eq!(rollout.into_clusters(), [moved]);
}
