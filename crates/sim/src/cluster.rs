//! A managed cluster: its objects, its agent, and the built-in Kubernetes controllers that run there.

use controllers::agent_identity::AgentSettings;
use jiff::Timestamp;

use super::process::Process;
use preview::workload;
use store::Store;

/// A managed cluster with its agent.
pub struct Spoke {
    /// The cluster's objects.
    pub store: Store,
    /// The agent's settings, which take effect at its next start.
    pub settings: AgentSettings,
    /// The environment in which its workloads run.
    pub workloads: workload::Environment,
    /// True if the agent can reach the hub.
    pub connected: bool,
    /// True if its API server responds.
    pub answers: bool,
    /// The version of its API server.
    pub version: String,
    pub(crate) agent: Process,
    /// The spoke's revision when its workloads last advanced, and the next time at which one of them changes
    /// without a write.
    pub(crate) seen: u64,
    pub(crate) wake_at: Option<Timestamp>,
}

impl Spoke {
    /// Runs the cluster's own controllers; returns true if anything changed.
    pub(crate) fn run_workloads(&mut self, now: Timestamp) -> bool {
        let due = self.wake_at.is_some_and(|at| at <= now);
        if self.seen == self.store.revision() && !due {
            return false;
        }
        self.wake_at = workload::run(&mut self.store, &self.workloads, now);
        let changed = self.seen != self.store.revision();
        self.seen = self.store.revision();
        changed || due
    }
}
