//! Sets the defaults of clusters that OCM's mutating webhook sets: the cluster set `default`, and the time when a
//! taint was added.
//!
//! A webhook needs a server, certificates and a hub that waits for it; a controller needs none of these. The
//! controller writes a moment later, which is early enough: until then, a cluster without the label is in no set,
//! and the admission policies treat it like a cluster of the set `default`.

use jiff::{Timestamp, Unit};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, json};

use api::cluster::v1::{ManagedCluster, Taint};
use api::names::{CLUSTER_SET_LABEL, DEFAULT_CLUSTER_SET};
use object::{Key, Metadata as _};
use reconcile::{Action, Change, Controller, Plan, Read, View, Watches};

pub(crate) struct ClusterDefaultsController;

impl Controller for ClusterDefaultsController {
    const NAME: &'static str = "cluster-defaults";
    type Primary = ManagedCluster;

    fn concerns(change: &Change<ManagedCluster>) -> bool {
        change.differs_in(|cluster| (&cluster.metadata.labels, &cluster.spec.taints))
    }

    fn watches<W: Watches>(_: &mut W) {}

    fn plan(key: &Key, view: &impl View, now: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        let Some(cluster) = view.get::<ManagedCluster>(key)?.filter(|cluster| !cluster.is_terminating())
        else {
            return Ok(plan);
        };
        let mut patch = Map::new();
        if cluster.label(CLUSTER_SET_LABEL).unwrap_or_default().is_empty() {
            let labels = json!({"labels": {CLUSTER_SET_LABEL: DEFAULT_CLUSTER_SET}});
            patch.insert("metadata".to_owned(), labels);
        }
        let taints = stamped(&cluster.spec.taints, now);
        if taints != cluster.spec.taints {
            patch.insert("spec".to_owned(), json!({"taints": taints}));
        }
        if !patch.is_empty() {
            plan.step([Action::patch(cluster.as_ref(), patch)]);
        }
        Ok(plan)
    }
}

/// Returns the taints with their times. A Placement counts `tolerationSeconds` from that time, and treats a taint
/// without a time as older than any other.
fn stamped(taints: &[Taint], now: Timestamp) -> Vec<Taint> {
    let now = Time(now.round(Unit::Second).unwrap_or(now));
    let with_time = |taint: &Taint| Taint {
        time_added: Some(taint.time_added.clone().unwrap_or_else(|| now.clone())),
        ..taint.clone()
    };
    taints.iter().map(with_time).collect()
}

#[cfg(test)]
#[path = "tests/cluster_defaults.rs"]
mod tests;
