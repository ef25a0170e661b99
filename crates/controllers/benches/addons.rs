//! What one change costs the controllers of add-ons: `cargo bench -p wheelwright-controllers --bench addons`.
//!
//! One add-on on every cluster of a fleet, with two thirds of the clusters done, through the controllers and
//! their caches without an API server: Progressive with a template, Progressive with a manager of its own,
//! and installed by hand. A change of one cluster must not cost more where there are more clusters.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a benchmark fails by panicking and reads the clock"
)]

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use memory_hub::MemoryHub;
use object::{Key, Object};
use reconcile::{Command, Controller, Dispatcher, Limits, Register};
use serde_json::{Value, json};

#[path = "../src/hub/tests/memory_hub.rs"]
mod memory_hub;

/// The controllers that look at an add-on on every cluster.
const CONTROLLERS: [&str; 3] = [INSTALL, "addon-config", REPORT];
const REPORT: &str = "report";
const INSTALL: &str = "addon-install";
const CLUSTER_GROUP: &str = "cluster.open-cluster-management.io";
const ADDON_GROUP: &str = "addon.open-cluster-management.io";
/// Clusters of a slice of decisions.
const SLICE: usize = 100;
/// Changes whose cost is averaged.
const CHANGES: usize = 10;

/// Registers some controllers of the hub.
struct Chosen<'a>(&'a mut Dispatcher);

impl Register for Chosen<'_> {
    fn add<C: Controller>(&mut self) {
        if CONTROLLERS.contains(&C::NAME) {
            self.0.add::<C>();
        }
    }
}

/// The number of plans and their CPU time, by controller.
type Spent = BTreeMap<&'static str, (usize, Duration)>;

fn hub(clusters: usize, spec: &Value) -> MemoryHub {
    let limits = Limits { coalesce: SignedDuration::ZERO, computations: 1 };
    let mut dispatcher = Dispatcher::new(limits, false);
    controllers::hub(&mut Chosen(&mut dispatcher));
    MemoryHub::new(dispatcher, fleet(clusters, spec))
}

/// Plans what is due and writes it, until nothing is due.
fn settle(hub: &mut MemoryHub) -> Spent {
    let mut spent = Spent::new();
    loop {
        let commands = hub.dispatcher.due(hub.now);
        if commands.is_empty() {
            return spent;
        }
        for command in commands {
            if let Command::Decide(decision) = command {
                let controller = decision.controller;
                let start = cpu();
                let decided = decision.run();
                let (plans, time) = spent.entry(controller).or_default();
                (*plans, *time) = (*plans + 1, *time + (cpu() - start));
                hub.dispatcher.decided(decided, hub.now);
            } else {
                hub.execute(command);
            }
        }
    }
}

/// Returns the CPU time of this thread, which other work on the machine changes little.
fn cpu() -> Duration {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(spent.split_whitespace().next().unwrap().parse().unwrap())
}

fn name(i: usize) -> String {
    format!("cluster-{i:05}")
}

fn cluster(i: usize) -> Value {
    json!({
        "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": {"name": name(i), "resourceVersion": "1", "uid": format!("c{i}"), "creationTimestamp": "2023-01-01T00:00:00Z"},
        "spec": {"hubAcceptsClient": true},
        "status": {"conditions": [{
            "type": "ManagedClusterConditionAvailable", "status": "True", "reason": "ManagedClusterAvailable",
            "message": "Managed cluster is available", "lastTransitionTime": "2023-01-01T00:00:00Z",
        }]},
    })
}

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

/// A page of decisions.
fn decision(clusters: Range<usize>) -> Value {
    let group = CLUSTER_GROUP;
    let name_of_page = format!("all-decision-{}", clusters.start);
    let decisions = clusters.map(|i| json!({"clusterName": name(i), "reason": ""}));
    json!({
        "apiVersion": format!("{group}/v1beta1"), "kind": "PlacementDecision",
        "metadata": {
            "namespace": "ns", "name": name_of_page, "resourceVersion": "1",
            "labels": {
                (format!("{group}/placement")): "all", (format!("{group}/decision-group-index")): "0",
                (format!("{group}/decision-group-name")): "",
            },
        },
        "status": {"decisions": decisions.collect::<Vec<_>>()},
    })
}

/// The specs of the add-on that are measured.
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

/// The add-on, its placement, and everything that they need.
fn fleet(clusters: usize, spec: &Value) -> Vec<Value> {
    let group = CLUSTER_GROUP;
    let mut objects: Vec<Value> = (0..clusters).flat_map(|i| [cluster(i), addon(i)]).collect();
    objects.extend((0..clusters).step_by(SLICE).map(|first| decision(first..clusters.min(first + SLICE))));
    objects.extend([
        json!({
            "apiVersion": format!("{group}/v1beta1"), "kind": "Placement",
            "metadata": {"namespace": "ns", "name": "all", "resourceVersion": "1"}, "spec": {},
            "status": {"numberOfSelectedClusters": clusters, "conditions": [{
                "type": "PlacementSatisfied", "status": "True", "reason": "AllDecisionsScheduled", "message": "",
                "lastTransitionTime": "2023-01-01T00:00:00Z",
            }]},
        }),
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

/// The status of an add-on that arrived on its cluster.
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

/// The status of an add-on with another condition `Progressing`.
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

/// Adds up the time of plans and prints them.
fn print(what: &str, spent: &[Spent]) -> BTreeMap<&'static str, Duration> {
    let mut sums: BTreeMap<&'static str, (usize, Duration)> = BTreeMap::new();
    for (controller, (plans, time)) in spent.iter().flatten() {
        let sum = sums.entry(controller).or_default();
        *sum = (sum.0 + plans, sum.1 + *time);
    }
    for (controller, (plans, time)) in &sums {
        println!("    {what}: {controller}: {plans} plans, {:.2?} each", *time / *plans as u32);
    }
    sums.into_iter().map(|(controller, (plans, time))| (controller, time / plans as u32)).collect()
}

/// Measures one size of fleet; returns what a change of one cluster costs each controller.
fn measure(clusters: usize, spec: &Value) -> BTreeMap<&'static str, Duration> {
    println!("  {clusters} clusters");
    let mut hub = hub(clusters, spec);
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
        // The report waits for more changes, then until its interval is over.
        hub.now += SignedDuration::from_secs(65);
        spent.push(settle(&mut hub));
    }
    let reports = print("later", &spent);
    sums.extend(reports.get(REPORT).map(|time| (REPORT, *time)));
    let mut spent = Vec::new();
    for joined in clusters..clusters + CHANGES {
        for object in [cluster(joined), decision(joined..joined + 1)] {
            hub.put(Object::from_value(object).unwrap());
        }
        let selected = json!({"status": {"numberOfSelectedClusters": joined + 1}});
        hub.patch("Placement", &Key::namespaced("ns", "all"), &selected);
        spent.push(settle(&mut hub));
    }
    let joins = print("one cluster joins", &spent);
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
