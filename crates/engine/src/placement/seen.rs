//! The fields of a cluster that placements read.

use super::prioritizer;
use api::cluster::v1::ManagedCluster;
use object::Metadata as _;

/// A view of a cluster for placements without CEL expressions. Two views are equal if no predicate or
/// prioritizer can distinguish them.
pub struct SeenCluster<'a>(pub &'a ManagedCluster);

impl PartialEq for SeenCluster<'_> {
    fn eq(&self, other: &Self) -> bool {
        fields(self.0) == fields(other.0) && !prioritizer::differs(self.0, other.0)
    }
}

/// Returns the fields that predicates and tolerations read.
fn fields(cluster: &ManagedCluster) -> impl PartialEq + '_ {
    let claims = cluster.status.as_ref().map(|status| &status.cluster_claims);
    (cluster.is_terminating(), &cluster.metadata.labels, &cluster.spec.taints, claims)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn two_states_of_a_cluster_differ_if_a_predicate_or_prioritizer_reads_another_value() {
        let cluster = |place: &str, value: Value| -> ManagedCluster {
            let mut cluster = json!({"metadata": {"name": "c", "labels": {"a": "b"}, "deletionTimestamp": null},
                "spec": {"taints": [{"key": "k", "effect": "NoSelect", "timeAdded": null}]},
                "status": {"clusterClaims": [{"name": "n", "value": "v"}], "allocatable": {"cpu": "1"},
                    "capacity": {"cpu": "2"}, "version": {"kubernetes": "1"}}});
            *cluster.pointer_mut(place).unwrap() = value;
            serde_json::from_value(cluster).unwrap()
        };
        let before = cluster("/metadata/name", json!("c"));
        let differs = |place: &str, value: Value| SeenCluster(&before) != SeenCluster(&cluster(place, value));
        assert!(!differs("/metadata/name", json!("c")));
        assert!(!differs("/status/version/kubernetes", json!("2")), "nobody reads it");
        for (place, value) in [
            ("/metadata/labels/a", json!("c")),
            ("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")),
            ("/spec/taints", json!([])),
            ("/status/clusterClaims", json!([])),
            ("/status/allocatable/cpu", json!("2")),
        ] {
            assert!(differs(place, value), "{place}");
        }
    }
}
