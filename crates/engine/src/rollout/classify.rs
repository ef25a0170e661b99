//! Judges the state of one cluster, without the other clusters.
//!
//! OCM counts from the time of the report alone, which may be older than the assignment. Here a deadline or a
//! soak begins no earlier than the assignment of the hash that it is about.

use jiff::{SignedDuration, Timestamp};
use object::duration::later;

use super::cluster::{Cluster, Hash, Health, Report};
use super::state::ClusterState;
use super::strategy::Limits;

/// How long the rollout waits for clusters in flight to a superseded revision, if neither strategy nor policy
/// has a deadline.
const FINISH_CURRENT: SignedDuration = SignedDuration::from_mins(10);

/// Returns the state of a cluster that belongs to no placement's rollout: it starts as soon as it can,
/// without a soak or a deadline.
pub fn observe(cluster: &Cluster, now: Timestamp) -> ClusterState {
    let limits = Limits { soak: None, deadline: None, start_unreachable: true };
    classify(Some(cluster), &limits, now).unwrap_or(ClusterState::Starting)
}

/// Returns the state of a cluster of a group; `None` if the cluster waits to start.
///
/// A cluster without an entry in the input waits to start. One whose turn came, and on which the API server
/// creates nothing, is in flight until its deadline, and may still succeed.
pub(super) fn classify(cluster: Option<&Cluster>, limits: &Limits, now: Timestamp) -> Option<ClusterState> {
    let cluster = cluster?;
    if cluster.skip {
        return Some(ClusterState::Skipped);
    }
    if cluster.runs.as_ref() != Some(&cluster.wants) {
        if cluster.unreachable && !limits.start_unreachable {
            return Some(ClusterState::Unreachable { moved: false });
        }
        let since = cluster.refused_since?;
        let deadline = limits.deadline.map(|span| later(since, span));
        let is_expired = deadline.is_some_and(|deadline| deadline <= now);
        let waits = ClusterState::Progressing { deadline, reported: false };
        return Some(if is_expired { ClusterState::TimedOut } else { waits });
    }
    let (report, begin) = report_on(cluster, &cluster.wants);
    let after = |begin: Option<Timestamp>, span: SignedDuration| later(begin.unwrap_or(now), span);
    let soaked = after(begin, limits.soak.unwrap_or_default());
    let deadline = limits.deadline.map(|span| after(begin.max(cluster.answers_since), span));
    let is_expired = deadline.is_some_and(|deadline| deadline <= now);
    Some(match report {
        Report::Succeeded if soaked <= now => ClusterState::Done,
        Report::Relapsed { .. } if soaked > now => {
            ClusterState::Progressing { deadline: Some(soaked), reported: true }
        }
        // Reports say that it does not work; the rollout has ended.
        Report::Relapsed { .. } if cluster.last_good.as_ref() == Some(&cluster.wants) => ClusterState::Done,
        Report::Relapsed { .. } => ClusterState::Failed { deadline: None },
        Report::Failed if is_expired => ClusterState::TimedOut,
        Report::Failed => ClusterState::Failed { deadline },
        Report::TimeOut => ClusterState::TimedOut,
        Report::Succeeded | Report::Progressing | Report::ToApply if cluster.unreachable => {
            ClusterState::Unreachable { moved: true }
        }
        Report::Succeeded => ClusterState::Soaking { until: soaked },
        // Without a report its time runs from the assignment, if that time is known.
        Report::ToApply if begin.is_none() => ClusterState::Progressing { deadline: None, reported: false },
        Report::Progressing | Report::ToApply if is_expired => ClusterState::TimedOut,
        Report::Progressing => ClusterState::Progressing { deadline, reported: true },
        Report::ToApply => ClusterState::Progressing { deadline, reported: false },
    })
}

/// Returns the time at which a cluster that was assigned the wanted revision succeeded, failed or timed out,
/// or will; `None` if no time is known.
pub(super) fn finished(cluster: &Cluster, limits: &Limits) -> Option<Timestamp> {
    cluster.runs.as_ref().filter(|runs| **runs == cluster.wants)?;
    let (report, begin) = report_on(cluster, &cluster.wants);
    let span = match report {
        Report::Succeeded | Report::Relapsed { .. } => limits.soak.unwrap_or_default(),
        Report::Failed | Report::TimeOut => SignedDuration::ZERO,
        Report::ToApply | Report::Progressing if cluster.unreachable => return None,
        Report::ToApply | Report::Progressing => limits.deadline?,
    };
    begin?.checked_add(span).ok()
}

/// Returns until when the rollout waits for a cluster in flight to another hash than it should run; `None` if
/// it does not wait.
pub(super) fn superseded(cluster: &Cluster, limits: &Limits, now: Timestamp) -> Option<Timestamp> {
    let runs = cluster.runs.as_ref().filter(|runs| **runs != cluster.wants)?;
    if cluster.skip || cluster.unreachable {
        return None;
    }
    let (report, begin) = report_on(cluster, runs);
    match report {
        Report::Succeeded | Report::Relapsed { .. } | Report::Failed | Report::TimeOut => None,
        Report::Progressing | Report::ToApply => {
            let until = begin?.checked_add(limits.deadline.unwrap_or(FINISH_CURRENT)).ok()?;
            (until > now).then_some(until)
        }
    }
}

/// Returns whether the start of the deadline and of the soak of the wanted hash is known.
pub(super) fn has_begun(cluster: &Cluster) -> bool {
    report_on(cluster, &cluster.wants).1.is_some()
}

/// Returns whether a cluster has reported that the wanted hash failed; else it is only late.
pub(super) fn has_failed(cluster: &Cluster) -> bool {
    let report = report_on(cluster, &cluster.wants).0;
    matches!(report, Report::Failed | Report::Relapsed { failed: true } | Report::TimeOut)
}

/// Returns whether a cluster succeeded with the wanted hash, and has stopped working.
pub(super) fn has_relapsed(cluster: &Cluster) -> bool {
    matches!(report_on(cluster, &cluster.wants).0, Report::Relapsed { .. })
}

/// Returns whether a cluster has reported that a hash succeeds.
pub(super) fn has_succeeded(cluster: &Cluster, hash: &Hash) -> bool {
    report_on(cluster, hash).0 == Report::Succeeded
}

/// Returns the report of a cluster about a hash, and its time; a report about any other hash does not count.
fn report_on(cluster: &Cluster, hash: &Hash) -> (Report, Option<Timestamp>) {
    let health = cluster.health.as_ref().filter(|health| health.of == *hash);
    let report = health.map_or(Report::ToApply, |Health { report, .. }| *report);
    (report, health.and_then(|health| health.since).max(cluster.runs_since))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_whose_assignment_has_no_known_time_never_times_out_without_a_report() {
        let [answers, now] = [0, 3600].map(|second| Timestamp::from_second(second).unwrap());
        let limits =
            Limits { soak: None, deadline: Some(SignedDuration::from_mins(10)), start_unreachable: true };
        let cluster =
            Cluster { runs: Some(Hash::default()), answers_since: Some(answers), ..Cluster::default() };
        let expected = ClusterState::Progressing { deadline: None, reported: false };
        assert_eq!(classify(Some(&cluster), &limits, now), Some(expected));
    }

    #[test]
    fn a_cluster_that_stops_working_fails_while_the_rollout_goes_on_and_is_done_after_its_end() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let limits = Limits {
            soak: Some(SignedDuration::from_secs(60)),
            deadline: Some(SignedDuration::from_mins(10)),
            start_unreachable: false,
        };
        for failed in [false, true] {
            let report = Report::Relapsed { failed };
            let health = Some(Health { of: "r2".into(), report, since: Some(at(100)) });
            let cluster = Cluster {
                wants: "r2".into(),
                runs: Some("r2".into()),
                last_good: Some("r1".into()),
                health,
                ..Cluster::default()
            };
            let state = |cluster: &Cluster, now| classify(Some(cluster), &limits, at(now));
            let soaks = ClusterState::Progressing { deadline: Some(at(160)), reported: true };
            assert_eq!(state(&cluster, 159), Some(soaks));
            for now in [160, 10_000] {
                assert_eq!(state(&cluster, now), Some(ClusterState::Failed { deadline: None }));
            }
            assert_eq!(has_failed(&cluster), failed, "without its word it is only late");
            let ended = Cluster { last_good: Some("r2".into()), ..cluster };
            assert_eq!(state(&ended, 160), Some(ClusterState::Done));
        }
    }

    #[test]
    fn a_cluster_on_which_nothing_can_be_created_times_out_after_its_turn_came() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let limits =
            Limits { soak: None, deadline: Some(SignedDuration::from_mins(10)), start_unreachable: false };
        let refused = Cluster {
            wants: "r1".into(),
            refused_since: Some(at(0)),
            answers_since: Some(at(500)),
            ..Cluster::default()
        };
        let waits = ClusterState::Progressing { deadline: Some(at(600)), reported: false };
        assert_eq!(classify(Some(&refused), &limits, at(599)), Some(waits));
        assert_eq!(classify(Some(&refused), &limits, at(600)), Some(ClusterState::TimedOut));
        let endless = Limits { deadline: None, ..limits };
        let waits = ClusterState::Progressing { deadline: None, reported: false };
        assert_eq!(classify(Some(&refused), &endless, at(600)), Some(waits));
        let silent = Cluster { unreachable: true, ..refused.clone() };
        let unreachable = ClusterState::Unreachable { moved: false };
        assert_eq!(classify(Some(&silent), &limits, at(600)), Some(unreachable));
        let created = Cluster { runs: Some("r1".into()), runs_since: Some(at(590)), ..refused };
        let runs = ClusterState::Progressing { deadline: Some(at(1190)), reported: false };
        assert_eq!(classify(Some(&created), &limits, at(600)), Some(runs));
    }
}
