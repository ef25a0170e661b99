//! A fleet in memory under selected hub controllers, which measures the CPU time of their plans.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use jiff::SignedDuration;
use memory_hub::MemoryHub;
use object::{Key, Object};
use reconcile::{Command, Controller, Dispatcher, DispatcherLimits, Register};
use serde_json::{Value, json};

#[path = "../src/hub/tests/memory_hub.rs"]
pub(crate) mod memory_hub;

/// Number of changes over which the cost is averaged.
pub(crate) const CHANGES: usize = 10;
const CLUSTER_GROUP: &str = "cluster.open-cluster-management.io";
/// Number of clusters per PlacementDecision.
const SLICE: usize = 100;

/// The number of plans and their CPU time, by controller.
pub(crate) type Spent = BTreeMap<&'static str, (usize, Duration)>;

/// Registers only the hub controllers with the given names.
struct Chosen<'a>(&'a mut Dispatcher, &'a [&'static str]);

impl Register for Chosen<'_> {
    fn add<C: Controller>(&mut self) {
        if self.1.contains(&C::NAME) {
            self.0.add::<C>();
        }
    }
}

/// Returns a hub with the given controllers and one placement that selects every cluster.
pub(crate) fn hub(controllers: &[&'static str], clusters: usize, mut objects: Vec<Value>) -> MemoryHub {
    let limits = DispatcherLimits { coalesce: SignedDuration::ZERO, computations: 1 };
    let mut dispatcher = Dispatcher::new(limits, false);
    controllers::hub(&mut Chosen(&mut dispatcher, controllers));
    objects.extend((0..clusters).map(cluster));
    objects.extend((0..clusters).step_by(SLICE).map(|first| decision(first..clusters.min(first + SLICE))));
    objects.push(json!({
        "apiVersion": format!("{CLUSTER_GROUP}/v1beta1"), "kind": "Placement",
        "metadata": {"namespace": "ns", "name": "all", "resourceVersion": "1"}, "spec": {},
        "status": {"numberOfSelectedClusters": clusters, "conditions": [{
            "type": "PlacementSatisfied", "status": "True", "reason": "AllDecisionsScheduled", "message": "",
            "lastTransitionTime": "2023-01-01T00:00:00Z",
        }]},
    }));
    MemoryHub::new(dispatcher, objects)
}

/// Runs and writes due plans until none is due.
pub(crate) fn settle(hub: &mut MemoryHub) -> Spent {
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

/// Adds clusters to the placement one by one.
pub(crate) fn join(hub: &mut MemoryHub, clusters: usize) -> Vec<Spent> {
    let mut spent = Vec::new();
    for joined in clusters..clusters + CHANGES {
        for object in [cluster(joined), decision(joined..joined + 1)] {
            hub.put(Object::from_value(object).unwrap());
        }
        let selected = json!({"status": {"numberOfSelectedClusters": joined + 1}});
        hub.patch("Placement", &Key::namespaced("ns", "all"), &selected);
        spent.push(settle(hub));
    }
    spent
}

/// Sums and prints the time of plans. Returns the time per plan of each controller.
pub(crate) fn print(what: &str, spent: &[Spent]) -> BTreeMap<&'static str, Duration> {
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

/// Returns the CPU time of this thread, which other load on the machine hardly affects.
fn cpu() -> Duration {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(spent.split_whitespace().next().unwrap().parse().unwrap())
}

pub(crate) fn name(i: usize) -> String {
    format!("cluster-{i:05}")
}

fn cluster(i: usize) -> Value {
    json!({
        "apiVersion": format!("{CLUSTER_GROUP}/v1"), "kind": "ManagedCluster",
        "metadata": {"name": name(i), "resourceVersion": "1", "uid": format!("c{i}"), "creationTimestamp": "2023-01-01T00:00:00Z"},
        "spec": {"hubAcceptsClient": true},
        "status": {"conditions": [{
            "type": "ManagedClusterConditionAvailable", "status": "True", "reason": "ManagedClusterAvailable",
            "message": "Managed cluster is available", "lastTransitionTime": "2023-01-01T00:00:00Z",
        }]},
    })
}

/// Returns a PlacementDecision with a range of clusters.
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
