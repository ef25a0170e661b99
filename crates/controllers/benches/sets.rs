//! Measures the cost of a change for the ManifestWorkReplicaSet controller:
//! `cargo bench -p wheelwright-controllers --bench sets`.
//!
//! Two thirds of a fleet have finished the Progressive rollout of one set. The controller and its caches run
//! without an API server. The benchmark fails if the cost of a change grows in proportion to the fleet.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a benchmark fails by panicking and reads the clock"
)]

use std::time::Duration;

use fleet::memory_hub::MemoryHub;
use fleet::{CHANGES, join, name, print, settle};
use jiff::SignedDuration;
use object::Key;
use serde_json::{Value, json};

mod fleet;

const CONTROLLER: &str = "replica-set";
const WORK_GROUP: &str = "work.open-cluster-management.io";
/// Maximum cost of a change, relative to a change in a fleet with a tenth of the clusters.
const LIMIT: f64 = 8.0;

fn set() -> Value {
    let strategy = json!({"type": "Progressive", "progressive": {
        "maxConcurrency": "100%", "progressDeadline": "10m", "minSuccessTime": "1m", "maxFailures": "10%",
    }});
    json!({
        "apiVersion": format!("{WORK_GROUP}/v1alpha1"), "kind": "ManifestWorkReplicaSet",
        "metadata": {"namespace": "ns", "name": "settings", "uid": "set", "resourceVersion": "1", "generation": 1},
        "spec": {
            "placementRefs": [{"name": "all", "rolloutStrategy": strategy}],
            "manifestWorkTemplate": {"workload": {"manifests": [
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"}},
            ]}},
        },
    })
}

/// Returns the keys of the set's works, sorted by cluster.
fn works(hub: &MemoryHub) -> Vec<Key> {
    hub.objects.keys().filter(|(kind, _)| kind == "ManifestWork").map(|(_, key)| key.clone()).collect()
}

/// Returns the status of a work that the agent has applied.
fn applied(is_degraded: bool) -> Value {
    let condition = |type_: &str, is_true: bool| {
        let status = if is_true { "True" } else { "False" };
        json!({"type": type_, "status": status, "reason": "R", "message": "", "lastTransitionTime": "2023-01-01T00:00:00Z"})
    };
    let conditions =
        [condition("Applied", true), condition("Available", true), condition("Degraded", is_degraded)];
    json!({"status": {"conditions": conditions}})
}

/// Measures one fleet size. Returns the cost of a change on one cluster.
fn measure(clusters: usize) -> Duration {
    println!("  {clusters} clusters");
    let mut hub = fleet::hub(&[CONTROLLER], clusters, vec![set()]);
    print("first", &[settle(&mut hub)]);
    let works = works(&hub);
    assert_eq!(works.len(), clusters, "the set is on every cluster");
    for key in works.iter().enumerate().filter(|(i, _)| i % 3 != 0).map(|(_, key)| key) {
        hub.patch("ManifestWork", key, &applied(false));
    }
    print("two thirds arrive", &[settle(&mut hub)]);
    hub.now += SignedDuration::from_secs(120);
    print("they are done", &[settle(&mut hub)]);
    let mut spent = Vec::new();
    for change in 0..CHANGES {
        let key = &works[change * 3 * (clusters / CHANGES / 3)];
        hub.patch("ManifestWork", key, &applied(change % 2 != 0));
        spent.push(settle(&mut hub));
    }
    let changes = print("one cluster changes", &spent);
    print("one cluster joins", &join(&mut hub, clusters));
    assert!(
        hub.objects
            .contains_key(&("ManifestWork".into(), Key::namespaced(name(clusters), works[0].name.clone())))
    );
    changes[CONTROLLER]
}

fn main() {
    let [small, large] = [1_000, 10_000].map(|clusters| measure(clusters).as_secs_f64());
    println!("  ten times the clusters: {:.1} times the time", large / small);
    assert!(large < LIMIT * small, "one change grows as the fleet does");
}
