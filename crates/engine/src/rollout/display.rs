//! Sentences that explain states: why a cluster waits, and until when.

use std::fmt::{Display, Formatter};

use super::decision::Stage;
use super::state::{Breach, ClusterState, Wait};
use crate::plural::counted;

impl Display for ClusterState {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Done => write!(f, "runs the wanted revision"),
            Self::Soaking { until } => write!(f, "succeeded, soaks until {until:.0}"),
            Self::Progressing { deadline, reported } => {
                let outcome = if *reported { "an outcome" } else { "a first report" };
                match deadline {
                    Some(deadline) => write!(f, "waits for {outcome} until {deadline:.0}"),
                    None => write!(f, "waits for {outcome}, without a deadline"),
                }
            }
            Self::Failed { deadline: Some(deadline) } => {
                write!(f, "failed, times out at {deadline:.0}")
            }
            Self::Failed { deadline: None } => write!(f, "failed"),
            Self::TimedOut => write!(f, "did not succeed before its deadline"),
            Self::Starting => write!(f, "starts now"),
            Self::Waiting(wait) => wait.fmt(f),
            Self::Skipped => write!(f, "is skipped"),
            Self::Unreachable { moved: true } => write!(f, "does not respond; its revision is assigned"),
            Self::Unreachable { moved: false } => {
                write!(f, "is unreachable; it starts when it is reachable again")
            }
            Self::Returning { to, unreachable } => {
                write!(f, "is returning to {}, because its revision is quarantined", to.short())?;
                if *unreachable { write!(f, "; it does not respond") } else { Ok(()) }
            }
            Self::Returned { to } => write!(f, "runs {}; the newer revision is quarantined", to.short()),
            Self::Quarantined => {
                write!(f, "keeps its quarantined revision, because it has no earlier one to return to")
            }
        }
    }
}

impl Display for Wait {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused => write!(f, "waits for a valid strategy and policy"),
            Self::Paused { policies } if policies.is_empty() => write!(f, "waits for the pause to end"),
            Self::Paused { policies } => {
                write!(f, "waits for the pause by RolloutPolicy {} to end", policies.join(", "))
            }
            Self::Quarantine { revision } => {
                write!(f, "waits for a new revision, because {} is quarantined", revision.short())
            }
            Self::Breach(breach) => write!(f, "waits because {breach}"),
            Self::Frozen { window, until } => {
                write!(f, "waits for the freeze {window} to end at {until} at the earliest")
            }
            Self::Unreachable { clusters, allowed } => {
                write!(f, "waits because too many clusters are unreachable: {clusters}, {allowed} allowed")
            }
            Self::Superseded { clusters, until } => {
                write!(
                    f,
                    "waits for clusters in flight to the previous revision: {clusters}, until {until} at the latest"
                )
            }
            Self::Stage { stage, unfinished } => write!(f, "waits for {stage} to finish: {unfinished} to go"),
            Self::StageSoak { stage, until } => write!(f, "waits for {stage} to soak until {until:.0}"),
            Self::Approval { token } => write!(f, "waits for the approval {token}"),
            Self::Slot { slots } => write!(f, "waits for a slot: all {slots} in use"),
            Self::Unassigned => write!(f, "waits because no rollout assigns it a configuration"),
        }
    }
}

impl Display for Breach {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "too many clusters failed in {}: {} ({} allowed)",
            self.stage, self.failures, self.allowed
        )?;
        match self.reports_until {
            Some(until) => {
                write!(
                    f,
                    "; the revision is quarantined once late clusters have reported, at {until:.0} at the latest"
                )
            }
            None => Ok(()),
        }
    }
}

/// `canary: 3 clusters, 1 unfinished, 2 of 3 slots in use, 0 failed (1 allowed)`.
impl Display for Stage {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self { name, mandatory: _, clusters, slots, busy, failures, allowed, unfinished } = self;
        let (clusters, slots) = (counted(clusters, "cluster"), counted(slots, "slot"));
        let allowed = allowed.map_or_else(|| "any".into(), |allowed| allowed.to_string());
        write!(
            f,
            "{name}: {clusters}, {unfinished} unfinished, {busy} of {slots} in use, {failures} failed ({allowed} allowed)"
        )
    }
}
