//! Classifies one cluster, independently of the other clusters.
//!
//! OCM counts only from the time of the report, which may predate the assignment. Here, a deadline or soak never
//! begins before its hash was assigned.

use jiff::{SignedDuration, Timestamp};
use object::duration::later;

use super::cluster::{Cluster, Hash, Health, Report};
use super::state::ClusterState;
use super::strategy::Limits;

/// The time that the rollout waits for clusters in flight to a superseded revision, if neither the strategy nor
/// the policy sets a deadline.
const FINISH_CURRENT: SignedDuration = SignedDuration::from_mins(10);

/// Returns the state of a cluster outside any placement rollout. Such a cluster starts as soon as it can,
/// without a soak or a deadline.
pub fn observe(cluster: &Cluster, now: Timestamp) -> ClusterState {
    let limits = Limits { soak: None, deadline: None, start_unreachable: true };
    classify(Some(cluster), &limits, now).unwrap_or(ClusterState::Starting)
}

/// Returns the state of a cluster in a group, or `None` if the cluster waits to start.
///
/// A cluster that is missing from the input waits to start. If the API server refuses to create the content of a
/// started cluster, the cluster is in flight until its deadline and may still succeed.
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
        // The rollout has ended here, although reports say that the cluster no longer works.
        Report::Relapsed { .. } if cluster.last_good.as_ref() == Some(&cluster.wants) => ClusterState::Done,
        Report::Relapsed { .. } => ClusterState::Failed { deadline: None },
        Report::Failed if is_expired => ClusterState::TimedOut,
        Report::Failed => ClusterState::Failed { deadline },
        Report::TimeOut => ClusterState::TimedOut,
        Report::Succeeded | Report::Progressing | Report::ToApply if cluster.unreachable => {
            ClusterState::Unreachable { moved: true }
        }
        Report::Succeeded => ClusterState::Soaking { until: soaked },
        // Without a report, the deadline runs from the assignment, if its time is known.
        Report::ToApply if begin.is_none() => ClusterState::Progressing { deadline: None, reported: false },
        Report::Progressing | Report::ToApply if is_expired => ClusterState::TimedOut,
        Report::Progressing => ClusterState::Progressing { deadline, reported: true },
        Report::ToApply => ClusterState::Progressing { deadline, reported: false },
    })
}

/// Returns the time at which a cluster with the wanted hash succeeded, failed or timed out, or will do so;
/// `None` if it is unknown.
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

/// Returns the time until which the rollout waits for a cluster in flight to a superseded hash; `None` if it
/// does not wait.
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

/// Returns true if the start of the deadline and soak of the wanted hash is known.
pub(super) fn has_begun(cluster: &Cluster) -> bool {
    report_on(cluster, &cluster.wants).1.is_some()
}

/// Returns true if a cluster reported that the wanted hash failed, rather than being late.
pub(super) fn has_failed(cluster: &Cluster) -> bool {
    let report = report_on(cluster, &cluster.wants).0;
    matches!(report, Report::Failed | Report::Relapsed { failed: true } | Report::TimeOut)
}

/// Returns true if a cluster succeeded with the wanted hash and has since stopped working.
pub(super) fn has_relapsed(cluster: &Cluster) -> bool {
    matches!(report_on(cluster, &cluster.wants).0, Report::Relapsed { .. })
}

/// Returns true if a cluster that works with the wanted hash had stopped working, or succeeded after its deadline.
pub(super) fn was_late(cluster: &Cluster, limits: &Limits) -> bool {
    let deadline = cluster.runs_since.max(cluster.answers_since).zip(limits.deadline);
    let succeeded = report_on(cluster, &cluster.wants).1;
    cluster.recovered || deadline.is_some_and(|(begin, span)| succeeded >= Some(later(begin, span)))
}

/// Returns true if a cluster reported success with a hash.
pub(super) fn has_succeeded(cluster: &Cluster, hash: &Hash) -> bool {
    report_on(cluster, hash).0 == Report::Succeeded
}

/// Returns the report of a cluster about a hash, and its time. Ignores reports about other hashes.
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
    fn a_cluster_that_stops_working_fails_during_the_rollout_and_is_done_after_its_end() {
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
