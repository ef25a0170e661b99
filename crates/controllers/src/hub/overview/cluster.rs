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
    /// The assigned version, as in [`engine::report::version_of`]; for a set, the start of its template's hash.
    pub runs: String,
    /// The cluster's state in the rollout.
    #[serde(flatten)]
    pub state: ClusterState,
    /// True if the running version works.
    pub available: bool,
    /// True if the cluster reports an error about its assigned version, regardless of its state.
    pub reports_error: bool,
    /// The reason that it is not done or does not work; empty if none is known.
    pub message: String,
    /// When it finished or failed, or else when its version was assigned, if the hub knows that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// The mark of a cluster, the same in every view. The most urgent comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// The cluster failed, is unreachable, or does not work.
    Bad,
    /// The cluster is in progress or done, but reports an error.
    Warned,
    /// The cluster works in the version before a quarantined one, and waits for a better one.
    Returned,
    /// The cluster is in progress.
    Busy,
    /// The cluster's turn has not come.
    Waiting,
    /// The cluster is done and works.
    Good,
}

impl Mark {
    /// Returns the symbol of the mark.
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
            _ if self.is_broken() => Mark::Bad,
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

    /// Returns true if the rollout has ended on the cluster, but the workload does not work there.
    pub fn is_broken(&self) -> bool {
        matches!(self.state, ClusterState::Done | ClusterState::Returned { .. }) && !self.available
    }

    /// Returns the state in words, including whether it reports an error or no longer works.
    pub fn label(&self) -> String {
        match self.state {
            _ if self.is_broken() => format!("{} (not available)", self.state.label()),
            _ if self.mark() == Mark::Warned => format!("{} (reports an error)", self.state.label()),
            _ => self.state.label(),
        }
    }

    /// Returns the version of the workload that it runs; see [`template_version`].
    pub fn version(&self, workload: &str) -> &str {
        template_version(&self.runs, workload)
    }
}

/// Returns the version part of a template's name in the configuration of a workload, such as `0.4.1` of
/// `managed-serviceaccount-0.4.1@897d91e7`; empty if there is none.
pub fn template_version<'a>(configuration: &'a str, workload: &str) -> &'a str {
    let template = configuration.split('@').next().unwrap_or_default();
    template.strip_prefix(workload).unwrap_or(template).trim_start_matches('-')
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
