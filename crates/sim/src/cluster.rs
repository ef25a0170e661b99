//! A managed cluster: its objects, its agent, and the built-in Kubernetes controllers that run there.

use controllers::agent_identity::AgentSettings;
use jiff::Timestamp;
use serde_json::json;

use super::process::Process;
use super::workload;
use store::{ListOptions, Patch, ResourcePath, Store, WriteOptions};

/// Kinds whose status is written by the cluster's own controllers.
const WORKLOADS: [(&str, &str, &str); 6] = [
    ("apps", "v1", "daemonsets"),
    ("apps", "v1", "deployments"),
    ("apps", "v1", "replicasets"),
    ("apps", "v1", "statefulsets"),
    ("batch", "v1", "jobs"),
    ("", "v1", "pods"),
];

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
        self.wake_at = run_workloads(&mut self.store, &self.workloads, now);
        let changed = self.seen != self.store.revision();
        self.seen = self.store.revision();
        changed || due
    }
}

/// Advances every workload of a cluster; returns when the next one changes without a write.
pub fn run_workloads(
    store: &mut Store,
    workloads: &workload::Environment,
    now: Timestamp,
) -> Option<Timestamp> {
    let options = WriteOptions::manager("kube-controller-manager");
    let mut next: Option<Timestamp> = None;
    for (group, version, resource) in WORKLOADS {
        let all = ResourcePath::resource(group, version, resource);
        let Ok(list) = store.list(&all, &ListOptions::default()) else { continue };
        for object in &list.items {
            let step = workload::step(object, workloads, now);
            let target = all.clone().at(&object.key());
            // If the object changed in the meantime, the next round handles it.
            if let Some(metadata) = step.metadata {
                let _ = store.patch(&target, &Patch::Merge(json!({ "metadata": metadata })), &options, now);
            }
            if let Some(status) = step.status {
                let _ = store.patch(
                    &target.sub("status"),
                    &Patch::Merge(json!({ "status": status })),
                    &options,
                    now,
                );
            }
            next = next.into_iter().chain(step.wake_at).min();
        }
    }
    next
}
