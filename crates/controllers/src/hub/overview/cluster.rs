//! The summary of an add-on or the work of a set on one cluster, and its mark.

use jiff::Timestamp;
use serde::Serialize;

use engine::rollout::ClusterState;

/// An add-on, or the work of a set, on one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSummary {
    /// Name of the cluster.
    pub name: String,
    /// The assigned version, as [`engine::report::version_of`] names it; of a set, the start of the hash of
    /// its template.
    pub runs: String,
    /// Its state in the rollout.
    #[serde(flatten)]
    pub state: ClusterState,
    /// Whether it works, in the version that it runs.
    pub available: bool,
    /// Whether it reports an error about what it is assigned, whatever its state.
    pub reports_error: bool,
    /// Why it is not done or does not work; empty without a reason.
    pub message: String,
    /// When it was done or failed, else when it was assigned what it runs, if the hub knows that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// The mark of a cluster, the same in every view, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// It failed, does not answer, or does not work.
    Bad,
    /// It is on the way or done, and reports an error.
    Warned,
    /// It works in the version before a quarantined one, and waits for a better one.
    Returned,
    /// It is on the way.
    Busy,
    /// Its turn has not come.
    Waiting,
    /// It is where it should be.
    Good,
}

impl Mark {
    /// Returns the sign of the mark.
    pub fn sign(self) -> char {
        match self {
            Self::Bad => '✗',
            Self::Warned => '!',
            Self::Returned => '↩',
            Self::Busy => '↻',
            Self::Waiting => '·',
            Self::Good => '✓',
        }
    }
}

impl ClusterSummary {
    /// Returns the mark of the cluster.
    pub fn mark(&self) -> Mark {
        match &self.state {
            ClusterState::Failed { .. } | ClusterState::TimedOut | ClusterState::Unreachable { .. } => {
                Mark::Bad
            }
            ClusterState::Quarantined => Mark::Bad,
            ClusterState::Done | ClusterState::Returned { .. } if !self.available => Mark::Bad,
            _ if self.reports_error => Mark::Warned,
            ClusterState::Returned { .. } => Mark::Returned,
            ClusterState::Starting
            | ClusterState::Progressing { .. }
            | ClusterState::Soaking { .. }
            | ClusterState::Returning { .. } => Mark::Busy,
            ClusterState::Waiting(_) => Mark::Waiting,
            ClusterState::Done | ClusterState::Skipped => Mark::Good,
        }
    }

    /// Returns its state in words, and whether it reports an error or has stopped working.
    pub fn label(&self) -> String {
        match self.state {
            ClusterState::Done | ClusterState::Returned { .. } if !self.available => {
                format!("{} (not available)", self.state.label())
            }
            _ if self.mark() == Mark::Warned => format!("{} (reports an error)", self.state.label()),
            _ => self.state.label(),
        }
    }

    /// Returns the version in the name of its template, such as `0.4.1` of
    /// `managed-serviceaccount-0.4.1@897d91e7`; empty without one.
    pub fn version(&self, workload: &str) -> &str {
        let template = self.runs.split('@').next().unwrap_or_default();
        template.strip_prefix(workload).unwrap_or(template).trim_start_matches('-')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_that_was_done_and_does_not_work_is_not_called_done_alone() {
        for (state, available, reports_error, label) in [
            (ClusterState::Done, true, false, "✓ Done"),
            (ClusterState::Done, true, true, "! Done (reports an error)"),
            (ClusterState::Done, false, true, "✗ Done (not available)"),
            (ClusterState::TimedOut, false, true, "✗ TimedOut"),
            (ClusterState::Starting, false, false, "↻ Starting"),
            (ClusterState::Starting, false, true, "! Starting (reports an error)"),
        ] {
            let (name, runs, message, since) = Default::default();
            let cluster = ClusterSummary { name, runs, state, available, reports_error, message, since };
            assert_eq!(format!("{} {}", cluster.mark().sign(), cluster.label()), label);
        }
    }
}
