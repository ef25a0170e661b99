//! Where a cluster stands, judged from what is known of it alone.

use jiff::{SignedDuration, Timestamp};

use super::input::{Cluster, Report};
use super::policy::Superseding;
use super::wave::State;

/// How long clusters in flight to a superseded revision are waited for where the strategy has no deadline.
const FINISH_CURRENT: SignedDuration = SignedDuration::from_mins(10);

/// The limits clusters are held to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) soak: SignedDuration,
    pub(super) deadline: Option<SignedDuration>,
    /// Clusters that do not answer are started too: the strategy has no slots to protect.
    pub(super) start_unreachable: bool,
    pub(super) superseding: Superseding,
}

/// Where a cluster stands before anything is decided about it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stand {
    /// It was not assigned what it should run.
    ToDo,
    /// It was, or there is nothing to decide.
    Settled(State),
}

/// Judges a cluster of a group; `None` is one nothing is known of.
///
/// OCM counts from the report's own transition time alone, which may be older than the assignment; here neither a deadline nor a
/// soak begins before the hash they are about was assigned.
pub(super) fn stand(cluster: Option<&Cluster>, limits: &Limits, now: Timestamp) -> Stand {
    let Some(cluster) = cluster else { return Stand::ToDo };
    if cluster.skip {
        return Stand::Settled(State::Skipped);
    }
    let silent = cluster.unreachable;
    if cluster.runs.as_ref() != Some(&cluster.wants) {
        let gone = silent && !limits.start_unreachable;
        return if gone { Stand::Settled(State::Unreachable { moved: false }) } else { Stand::ToDo };
    }
    let health = cluster.health.as_ref().filter(|health| bug!(NoFence) || health.of == cluster.wants);
    let begin = health.and_then(|health| health.since).max(cluster.runs_since);
    let after = |begin: Option<Timestamp>, span: SignedDuration| {
        begin.unwrap_or(now).checked_add(span).unwrap_or(Timestamp::MAX)
    };
    let deadline = limits.deadline.map(|span| after(begin.max(cluster.answers_since), span));
    let expired = deadline.is_some_and(|deadline| deadline <= now);
    let report = health.map_or(Report::ToApply, |health| health.report);
    Stand::Settled(match report {
        Report::Succeeded if after(begin, limits.soak) <= now => State::Done,
        Report::Failed if expired => State::TimedOut,
        Report::Failed => State::Failed { deadline },
        Report::TimeOut => State::TimedOut,
        Report::Succeeded | Report::Progressing | Report::ToApply if silent => {
            State::Unreachable { moved: true }
        }
        Report::Succeeded => State::Soaking { until: after(begin, limits.soak) },
        Report::Progressing if expired => State::TimedOut,
        Report::Progressing => State::Progressing { deadline, reported: true },
        // Not heard of since it was assigned: its time runs from the assignment, if that is known.
        Report::ToApply if begin.is_none() => State::Progressing { deadline: None, reported: false },
        Report::ToApply if expired => State::TimedOut,
        Report::ToApply => State::Progressing { deadline, reported: false },
    })
}

/// When a cluster that was assigned what it should run was done with, one way or the other; `None` where no time is known.
pub(super) fn finished(cluster: &Cluster, limits: &Limits) -> Option<Timestamp> {
    cluster.runs.as_ref().filter(|runs| **runs == cluster.wants)?;
    let health = cluster.health.as_ref().filter(|health| health.of == cluster.wants);
    let begin = health.and_then(|health| health.since).max(cluster.runs_since)?;
    let span = match health.map_or(Report::ToApply, |health| health.report) {
        Report::Succeeded => limits.soak,
        Report::Failed | Report::TimeOut => SignedDuration::ZERO,
        Report::ToApply | Report::Progressing if cluster.unreachable => return None,
        Report::ToApply | Report::Progressing => limits.deadline?,
    };
    begin.checked_add(span).ok()
}

/// Until when a cluster is in flight to something else than what it should run, if that must be waited for.
pub(super) fn superseded(cluster: &Cluster, limits: &Limits, now: Timestamp) -> Option<Timestamp> {
    match limits.superseding {
        Superseding::Latest => return None,
        Superseding::FinishCurrent if bug!(DoesNotFinishCurrent) => return None,
        Superseding::FinishCurrent => {}
    }
    let runs = cluster
        .runs
        .as_ref()
        .filter(|runs| **runs != cluster.wants && !cluster.skip && !cluster.unreachable)?;
    let health = cluster.health.as_ref().filter(|health| health.of == *runs);
    match health.map_or(Report::ToApply, |health| health.report) {
        Report::Succeeded | Report::Failed | Report::TimeOut => None,
        Report::Progressing | Report::ToApply => {
            let begin = health.and_then(|health| health.since).max(cluster.runs_since)?;
            begin.checked_add(limits.deadline.unwrap_or(FINISH_CURRENT)).ok().filter(|until| *until > now)
        }
    }
}
