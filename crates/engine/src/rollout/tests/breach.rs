//! Breaches by late clusters that may have been unable to report because the hub was down.

use jiff::{SignedDuration, Timestamp};

use crate::rollout::cluster::{Cluster, Group, Hash, Health, Report};
use crate::rollout::policy::{OnBreach, Policy};
use crate::rollout::state::Wait;
use crate::rollout::strategy::{Options, Progressive, Strategy};
use crate::rollout::{Input, RolloutDecision, Size, advance, oracle};

const DEADLINE: SignedDuration = SignedDuration::from_secs(60);
/// The time at which the hub is back, later than the deadline.
const BACK: i64 = 720;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Returns a rollout whose clusters were assigned `r2` at second 0 and sent the given reports.
fn rollout<const N: usize>(reports: [Option<Report>; N]) -> Input {
    let cluster = |(name, report): (&str, Option<Report>)| Cluster {
        name: name.into(),
        wants: "r2".into(),
        runs: Some("r2".into()),
        runs_since: Some(at(0)),
        health: report.map(|report| Health { of: "r2".into(), report, since: Some(at(0)) }),
        last_good: Some("r1".into()),
        ..Cluster::default()
    };
    let mut input = with_limits(DEADLINE, 0);
    input.clusters = ["a", "b", "c"].into_iter().zip(reports).map(cluster).collect();
    let clusters = input.clusters.iter().map(|cluster| cluster.name.clone()).collect();
    input.groups = vec![Group { clusters, ..Group::default() }];
    input
}

fn with_limits(deadline: SignedDuration, failures: u32) -> Input {
    let options = Options { deadline: Some(deadline), failures: Size::Count(failures), ..Options::default() };
    let strategy = Strategy::Progressive(Progressive { options, ..Progressive::default() });
    let mut input = Input::new("r2", Ok(strategy));
    input.policy = Ok(Policy { on_breach: OnBreach::Rollback, ..Policy::default() });
    input
}

/// Decides, and records the decision in the input.
fn decided(input: &mut Input, second: i64) -> RolloutDecision {
    let decision = advance(input, at(second));
    oracle::check(input, &decision, at(second)).unwrap();
    (input.quarantined, input.late_since) = (decision.quarantine.clone(), decision.late_since);
    decision
}

fn quarantine(input: &mut Input, second: i64) -> bool {
    decided(input, second).quarantine == Some(Hash::from("r2"))
}

#[test]
fn a_breach_by_late_clusters_quarantines_once_it_was_on_record_while_they_could_report() {
    for report in [None, Some(Report::Progressing)] {
        let mut input = rollout([report]);
        let decision = decided(&mut input, BACK);
        assert_eq!((decision.counts.timed_out, decision.quarantine), (1, None), "its state is as in OCM");
        assert_eq!((decision.late_since, decision.recheck), (Some(at(BACK)), Some(at(BACK) + DEADLINE)));
        let hold = decision.hold.unwrap();
        assert!(matches!(hold, Wait::Breach(_)), "nothing starts meanwhile: {hold}");
        let until = "once late clusters have reported, at 1970-01-01T00:13:00Z at the latest";
        assert!(hold.to_string().ends_with(until), "{hold}");
        assert_eq!([59, 60].map(|after| quarantine(&mut input, BACK + after)), [false, true]);
        assert_eq!(input.late_since, None, "the quarantine is the record from now on");
    }
}

#[test]
fn a_recorded_breach_ends_with_a_report_and_the_next_one_starts_its_time_again() {
    let mut input = rollout([None]);
    assert!(!quarantine(&mut input, BACK));
    let mut done = rollout([Some(Report::Succeeded)]);
    done.late_since = input.late_since;
    let decision = decided(&mut done, BACK + 59);
    assert_eq!((decision.breach, decision.counts.done, done.late_since), (None, 1, None));
    input.late_since = done.late_since;
    assert_eq!([60, 119, 120].map(|after| quarantine(&mut input, BACK + after)), [false, false, true]);
}

#[test]
fn a_breach_by_clusters_that_reported_a_failure_quarantines_at_once() {
    for report in [Report::Failed, Report::TimeOut] {
        assert!(quarantine(&mut rollout([Some(report)]), BACK), "{report:?}");
        assert!(quarantine(&mut rollout([None, Some(report), None]), BACK), "{report:?} beside late ones");
        let mut needed = rollout([None, Some(report), None]);
        needed.strategy = with_limits(DEADLINE, 1).strategy;
        assert!(!quarantine(&mut needed, BACK), "it is within the budget, and late ones are needed");
    }
}

#[test]
fn late_clusters_have_five_minutes_at_most() {
    let mut input = rollout([None]);
    input.strategy = with_limits(SignedDuration::from_hours(2), 0).strategy;
    assert_eq!([9000, 9299, 9300].map(|second| quarantine(&mut input, second)), [false, false, true]);
}

#[test]
fn a_record_in_the_future_counts_as_one_of_now() {
    let mut input = rollout([None]);
    input.late_since = Some(at(100_000));
    assert_eq!([0, 59, 60].map(|after| quarantine(&mut input, BACK + after)), [false, false, true]);
}

#[test]
fn a_record_is_read_back_as_it_was_decided() {
    let now = at(BACK) + SignedDuration::from_millis(700);
    for late_since in [None, Some(at(100_000))] {
        let input = Input { late_since, ..rollout([None]) };
        let decision = advance(&input, now);
        assert_eq!(decision.late_since, Some(at(BACK)));
        assert_eq!(advance(&Input { late_since: decision.late_since, ..input }, now), decision);
    }
}

#[test]
fn a_recorded_breach_quarantines_even_after_every_cluster_has_relapsed() {
    let relapsed = Some(Report::Relapsed { failed: false });
    let mut over = rollout([relapsed, relapsed]);
    assert_eq!([30, 30 + 300].map(|second| quarantine(&mut over, second)), [false, false], "it had ended");

    let mut input = rollout([relapsed, Some(Report::Progressing)]);
    assert!(!quarantine(&mut input, 30));
    input.clusters = rollout([relapsed, relapsed]).clusters;
    assert_eq!([31, 89, 90].map(|second| quarantine(&mut input, second)), [false, false, true]);
}

#[test]
fn a_cluster_that_should_return_and_does_not_answer_says_so() {
    let mut input = rollout([Some(Report::Failed), Some(Report::Succeeded)]);
    input.clusters[1].unreachable = true;
    let states = decided(&mut input, BACK).clusters;
    let returns = "is returning to r1, because its revision is quarantined";
    assert_eq!(
        ["a", "b"].map(|name| states[name].state.to_string()),
        [returns.to_owned(), format!("{returns}; it does not respond")]
    );
}

/// Returns the rollout of a cluster with a soak of ten seconds and the given report, and of one that waits for it.
fn looping(report: Report, since: i64, late_since: Option<Timestamp>) -> Input {
    let mut input = rollout([Some(report), None]);
    (input.clusters[1].runs, input.clusters[1].runs_since) = (Some("r1".into()), None);
    input.policy.as_mut().unwrap().soak = SignedDuration::from_secs(10);
    input.late_since = late_since;
    let cluster = &mut input.clusters[0];
    cluster.health.as_mut().unwrap().since = Some(at(0));
    cluster.restart_soak(at(since));
    input
}

#[test]
fn a_cluster_that_crashes_and_recovers_again_and_again_is_late_from_its_first_crash() {
    let relapsed = Report::Relapsed { failed: false };
    let mut record = None;
    for (second, report, since) in [
        (100, relapsed, 0),
        (120, Report::Succeeded, 120),
        (125, relapsed, 0),
        (150, Report::Succeeded, 150),
        (159, Report::Succeeded, 150),
    ] {
        let mut input = looping(report, since, record);
        let decision = decided(&mut input, second);
        assert_eq!((decision.late_since, decision.quarantine), (Some(at(100)), None), "{second}");
        assert_eq!(decision.breach.is_some(), report == relapsed, "{second}");
        record = input.late_since;
    }
    assert!(quarantine(&mut looping(relapsed, 0, record), 160), "the deadline is over");
    let mut soaked = looping(Report::Succeeded, 150, record);
    assert_eq!((decided(&mut soaked, 160).late_since, soaked.late_since), (None, None), "it works");
}

#[test]
fn a_success_after_the_deadline_ends_the_record_of_its_breach_after_the_soak_and_others_do_not_count() {
    let succeeded = |second| {
        let mut input = looping(Report::Succeeded, 0, Some(at(100)));
        input.clusters[0].health.as_mut().unwrap().since = Some(at(second));
        input
    };
    assert_eq!([101, 110].map(|now| decided(&mut succeeded(101), now).late_since), [Some(at(100)); 2]);
    assert_eq!(decided(&mut succeeded(101), 111).late_since, None);
    assert_eq!(decided(&mut succeeded(59), 60).late_since, None, "the record is of another cluster");
}

#[test]
fn no_breach_is_recorded_if_it_quarantines_nothing() {
    let rollback = || rollout([None]).policy.unwrap();
    let policies = [
        ("pause on a breach", Policy { on_breach: OnBreach::Pause, ..rollback() }),
        ("paused", Policy { paused: true, ..rollback() }),
        ("released", Policy { released: ["r2".into()].into(), ..rollback() }),
    ];
    for (name, policy) in policies {
        let mut input = Input { late_since: Some(at(BACK)), policy: Ok(policy), ..rollout([None]) };
        let decision = decided(&mut input, BACK + 600);
        assert_eq!((decision.late_since, decision.quarantine), (None, None), "{name}");
        assert!(decision.breach.is_some_and(|breach| breach.reports_until.is_none()), "{name}");
    }
}
