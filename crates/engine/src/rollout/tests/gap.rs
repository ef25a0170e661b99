//! Rollouts whose hub was not observed for a while.

use jiff::{SignedDuration, Timestamp};

use super::super::input::{Cluster, Group, Hash, Health, Input, Report};
use super::super::policy::{OnBreach, Policy};
use super::super::state::Wait;
use super::super::strategy::{Options, Progressive, Strategy};
use super::super::{RolloutDecision, advance, oracle};

const DEADLINE: SignedDuration = SignedDuration::from_secs(60);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Returns a rollout to the cluster `a`, which was assigned `r2` at 0, with this report; the hub is observed
/// since then.
fn rollout(report: Option<Report>, observed_since: Option<Timestamp>) -> Input {
    let options = Options { deadline: Some(DEADLINE), ..Options::default() };
    let strategy = Strategy::Progressive(Progressive { options, ..Progressive::default() });
    let mut input = Input::new("r2", Ok(strategy));
    input.policy = Ok(Policy { on_breach: OnBreach::Rollback, ..Policy::default() });
    input.groups = vec![Group { clusters: vec!["a".into()], ..Group::default() }];
    let health = report.map(|report| Health { of: "r2".into(), report, since: Some(at(0)) });
    input.clusters = vec![Cluster {
        name: "a".into(),
        wants: "r2".into(),
        runs: Some("r2".into()),
        runs_since: Some(at(0)),
        health,
        last_good: Some("r1".into()),
        ..Cluster::default()
    }];
    input.observed_since = observed_since;
    input
}

fn decided(input: &Input, now: Timestamp) -> RolloutDecision {
    let decision = advance(input, now);
    oracle::check(input, &decision, now).unwrap();
    decision
}

#[test]
fn a_cluster_that_could_not_report_in_time_has_time_to_before_its_revision_is_quarantined() {
    let back = at(720);
    for report in [None, Some(Report::Progressing)] {
        let input = rollout(report, Some(back));
        let decision = decided(&input, back);
        assert_eq!((decision.counts.timed_out, decision.quarantine), (1, None), "its state is as in OCM");
        assert!(matches!(decision.hold, Some(Wait::Breach(_))), "nothing starts meanwhile");
        assert_eq!(decision.recheck, Some(back + DEADLINE));
        assert_eq!(decided(&input, back + DEADLINE).quarantine, Some(Hash::from("r2")));
    }
    let done = rollout(Some(Report::Succeeded), Some(back));
    let decision = decided(&done, back + SignedDuration::from_secs(1));
    assert_eq!((decision.breach, decision.counts.done, decision.recheck), (None, 1, None));
}

#[test]
fn a_failure_that_a_cluster_has_reported_is_undone_at_once() {
    let back = at(720);
    for report in [Report::Failed, Report::TimeOut] {
        assert_eq!(decided(&rollout(Some(report), Some(back)), back).quarantine, Some(Hash::from("r2")));
    }
    assert!(decided(&rollout(None, None), back).quarantine.is_some(), "there was no gap");
}

#[test]
fn a_long_deadline_delays_a_quarantine_by_five_minutes_at_most() {
    let mut input = rollout(None, Some(at(9000)));
    let options = Options { deadline: Some(SignedDuration::from_hours(2)), ..Options::default() };
    input.strategy = Ok(Strategy::Progressive(Progressive { options, ..Progressive::default() }));
    assert_eq!(decided(&input, at(9299)).quarantine, None);
    assert_eq!(decided(&input, at(9300)).quarantine, Some(Hash::from("r2")));
}
