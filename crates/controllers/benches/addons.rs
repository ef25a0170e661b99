//! Measures the cost of a change for the add-on controllers:
//! `cargo bench -p wheelwright-controllers --bench addons`.
//!
//! Two thirds of a fleet have finished rolling out one add-on: Progressive with a template, Progressive with its
//! own manager, or installed by hand. The controllers and their caches run without an API server. The cost of a
//! change on one cluster must not grow with the number of clusters.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a benchmark fails by panicking and reads the clock"
)]

use std::collections::BTreeMap;
use std::time::Duration;

use fleet::memory_hub::MemoryHub;
use fleet::{CHANGES, join, name, print, settle};
use jiff::{SignedDuration, Timestamp};
use object::Key;
use serde_json::{Value, json};

mod fleet;

/// The controllers that process an add-on on every cluster.
const CONTROLLERS: [&str; 3] = [INSTALL, "addon-config", REPORT];
const REPORT: &str = "report";
const INSTALL: &str = "addon-install";
const ADDON_GROUP: &str = "addon.open-cluster-management.io";

fn addon(i: usize) -> Value {
    json!({
        "apiVersion": format!("{ADDON_GROUP}/v1alpha1"), "kind": "ManagedClusterAddOn",
        "metadata": {
            "namespace": name(i), "name": "msa", "resourceVersion": "1", "uid": format!("a{i}"),
            "annotations": {"gitops.wheelwright.dev/installed-by-placement": "true"},
            "ownerReferences": [{
                "apiVersion": format!("{ADDON_GROUP}/v1alpha1"), "kind": "ClusterManagementAddOn", "name": "msa",
                "uid": "cma", "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {},
        "status": {"conditions": [{
            "type": "Available", "status": "True", "reason": "WorkAvailable", "message": "it works",
            "lastTransitionTime": "2023-01-01T00:00:00Z",
        }]},
    })
}

/// Returns the specs of the measured add-on.
fn specs() -> [(&'static str, Value); 3] {
    let config = |resource: &str| json!({"group": ADDON_GROUP, "resource": resource, "defaultConfig": {"name": "msa-1"}});
    let progressive = json!({"type": "Placements", "placements": [{
        "namespace": "ns", "name": "all",
        "rolloutStrategy": {"type": "Progressive", "progressive": {
            "maxConcurrency": "100%", "progressDeadline": "10m", "minSuccessTime": "1m", "maxFailures": "10%",
        }},
    }]});
    let spec = |resource: &str, strategy: &Value| json!({"supportedConfigs": [config(resource)], "installStrategy": strategy});
    [
        ("a template", spec("addontemplates", &progressive)),
        ("a manager of its own", spec("configs", &progressive)),
        ("installed by hand", spec("addontemplates", &json!({"type": "Manual"}))),
    ]
}

/// Returns the add-on and all objects that it needs.
fn objects(clusters: usize, spec: &Value) -> Vec<Value> {
    let mut objects: Vec<Value> = (0..clusters).map(addon).collect();
    objects.extend([
        json!({
            "apiVersion": format!("{ADDON_GROUP}/v1alpha1"), "kind": "AddOnTemplate",
            "metadata": {"name": "msa-1", "resourceVersion": "1"},
            "spec": {"addonName": "msa", "agentSpec": {"workload": {"manifests": [
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"}},
            ]}}},
        }),
        json!({
            "apiVersion": format!("{ADDON_GROUP}/v1alpha1"), "kind": "ClusterManagementAddOn",
            "metadata": {
                "name": "msa", "uid": "cma", "resourceVersion": "1",
                "annotations": {"gitops.wheelwright.dev/config-repo": "config/fleet"},
            },
            "spec": spec,
        }),
        json!({
            "apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo",
            "metadata": {"namespace": "config", "name": "fleet", "resourceVersion": "1"},
            "spec": {"url": "https://git.example/fleet", "report": {"interval": "30s"}},
            "status": {"seen": {"commit": "1".repeat(40)}},
        }),
        json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {
                "name": "config", "resourceVersion": "1",
                "labels": {"gitops.wheelwright.dev/operator-identity": "allowed"},
            },
        }),
    ]);
    objects
}

/// Returns the status of an add-on that is applied on its cluster.
fn arrived(hub: &MemoryHub, key: &Key, at: Timestamp) -> Value {
    let addon = &hub.objects[&("ManagedClusterAddOn".to_owned(), key.clone())];
    let mut references = addon.0["status"]["configReferences"].clone();
    for reference in references.as_array_mut().unwrap() {
        reference["lastAppliedConfig"] = reference["desiredConfig"].clone();
    }
    let mut patch = progress(hub, key, "False", "Completed", at);
    patch["status"]["configReferences"] = references;
    patch
}

/// Returns the status of an add-on with a different condition `Progressing`.
fn progress(hub: &MemoryHub, key: &Key, status: &str, reason: &str, at: Timestamp) -> Value {
    let addon = &hub.objects[&("ManagedClusterAddOn".to_owned(), key.clone())];
    let mut conditions = addon.0["status"]["conditions"].clone();
    for condition in conditions.as_array_mut().unwrap().iter_mut().filter(|c| c["type"] == "Progressing") {
        condition["status"] = status.into();
        condition["reason"] = reason.into();
        condition["message"] = reason.into();
        condition["lastTransitionTime"] = at.to_string().into();
    }
    json!({"status": {"conditions": conditions}})
}

/// Measures one fleet size. Returns each controller's cost of a change on one cluster.
fn measure(clusters: usize, spec: &Value) -> BTreeMap<&'static str, Duration> {
    println!("  {clusters} clusters");
    let mut hub = fleet::hub(&CONTROLLERS, clusters, objects(clusters, spec));
    print("first", &[settle(&mut hub)]);
    let key = |i: usize| Key::namespaced(name(i), "msa");
    let at = hub.now;
    for i in (0..clusters).filter(|i| i % 3 != 0) {
        let patch = arrived(&hub, &key(i), at);
        hub.patch("ManagedClusterAddOn", &key(i), &patch);
    }
    print("two thirds arrive", &[settle(&mut hub)]);
    // The soak time of those clusters ends, and the report waits for its interval.
    hub.now += SignedDuration::from_secs(120);
    print("they are done", &[settle(&mut hub)]);
    let mut spent = Vec::new();
    for change in 0..CHANGES {
        let (i, at) = (change * 3 * (clusters / CHANGES / 3), hub.now);
        let patch = if change % 2 == 0 {
            arrived(&hub, &key(i), at)
        } else {
            progress(&hub, &key(i), "False", "Failed", at)
        };
        hub.patch("ManagedClusterAddOn", &key(i), &patch);
        spent.push(settle(&mut hub));
    }
    let mut sums = print("one cluster changes", &spent);
    hub.now += SignedDuration::from_secs(31);
    settle(&mut hub);
    let mut spent = Vec::new();
    for change in 0..CHANGES {
        let i = (change * 3 + 3) * (clusters / CHANGES / 3) - 3;
        let at = hub.now;
        let patch = progress(&hub, &key(i), "False", "Failed", at);
        hub.patch("ManagedClusterAddOn", &key(i), &patch);
        settle(&mut hub);
        // The report first waits for more changes, then for the end of its interval.
        hub.now += SignedDuration::from_secs(65);
        spent.push(settle(&mut hub));
    }
    let reports = print("later", &spent);
    sums.extend(reports.get(REPORT).map(|time| (REPORT, *time)));
    let joins = print("one cluster joins", &join(&mut hub, clusters));
    sums.extend(joins.get(INSTALL).map(|time| (INSTALL, *time)));
    sums
}

fn main() {
    for (what, spec) in specs() {
        println!("{what}");
        let (small, large) = (measure(1_000, &spec), measure(10_000, &spec));
        for (controller, time) in large {
            let before = small.get(controller).copied().unwrap_or_default().as_secs_f64();
            let ratio = time.as_secs_f64() / before;
            println!("  {controller}: ten times the clusters: {ratio:.1} times the time");
        }
    }
}
