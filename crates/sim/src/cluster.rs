//! A managed cluster: its objects, its agent, and the controllers that Kubernetes runs there.

use controllers::agent_identity::AgentSettings;
use jiff::Timestamp;
use serde_json::json;

use super::process::Process;
use super::workload;
use store::{ListOptions, Patch, ResourcePath, Store, WriteOptions};

/// Kinds with a status that controllers of the cluster write.
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
    /// The settings of its agent, from its next start on.
    pub settings: AgentSettings,
    /// The conditions for its workloads.
    pub workloads: workload::Environment,
    /// Whether the agent reaches the hub.
    pub connected: bool,
    /// Whether its API server answers.
    pub answers: bool,
    /// The version of its API server.
    pub version: String,
    pub(crate) agent: Process,
    /// The spoke's revision when its workloads were last advanced, and the time at which the next of them
    /// changes without a write.
    pub(crate) seen: u64,
    pub(crate) wake_at: Option<Timestamp>,
}

impl Spoke {
    /// Runs the cluster's own controllers; returns whether anything changed.
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
            // If an object changed in between, the next round handles it.
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
