//! Measures the cost of scheduling: `cargo bench --bench placement`.
//!
//! Schedules 100 placements over 10,000 clusters through the controller and its caches, without an API server. It
//! measures the first schedule and one changed label, and repeats both with 1,000 clusters, because the cost of a
//! change must not grow with the number of clusters.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a benchmark fails by panicking and reads the clock"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::cluster::v1beta1::{Placement, PlacementDecision};
use controllers::hub::placement::PlacementController;
use jiff::{SignedDuration, Timestamp};
use object::{Key, Kind, Object};
use reconcile::{
    Action, Command, Dispatcher, DispatcherLimits, Register as _, View as _, WatchedKind, WatcherEvent,
};
use serde_json::{Value, json};

const PLACEMENTS: usize = 100;

const NOW: Timestamp = Timestamp::constant(1_700_000_000, 0);

/// An in-memory hub whose only client is the dispatcher.
struct Hub {
    dispatcher: Dispatcher,
    kinds: BTreeMap<String, Arc<WatchedKind>>,
    commands: Vec<Command>,
    version: u64,
}

impl Hub {
    fn new(clusters: usize, wanted: Option<usize>) -> Self {
        let limits = DispatcherLimits { coalesce: SignedDuration::ZERO, computations: 1 };
        let mut dispatcher = Dispatcher::new(limits, false);
        dispatcher.add::<PlacementController>();
        let mut hub = Self { dispatcher, kinds: BTreeMap::new(), commands: Vec::new(), version: 1 };
        for command in hub.dispatcher.due(NOW) {
            if let Command::Watch(kind) = command {
                hub.kinds.insert(kind.gvk.kind.clone(), kind);
            }
        }
        let set = json!({
            "metadata": { "name": "global", "resourceVersion": "1" },
            "spec": { "clusterSelector": { "selectorType": "LabelSelector", "labelSelector": {} } },
        });
        let binding = json!({ "metadata": { "name": "global", "namespace": "ns", "resourceVersion": "1" }, "spec": { "clusterSet": "global" } });
        hub.list("ManagedClusterSet", vec![set]);
        hub.list("ManagedClusterSetBinding", vec![binding]);
        hub.list("AddOnPlacementScore", Vec::new());
        hub.list("PlacementDecision", Vec::new());
        hub.list("ManagedCluster", (0..clusters).map(|i| cluster(i, "1")).collect());
        hub.list("Placement", (0..PLACEMENTS).map(|i| placement(i, wanted)).collect());
        hub
    }

    fn list(&mut self, kind: &str, objects: Vec<Value>) {
        let kind = Arc::clone(&self.kinds[kind]);
        let objects = objects.into_iter().map(|object| kind.convert(&Object::from_value(object).unwrap()));
        let listed = WatcherEvent::Listed { objects: objects.collect(), resource_version: "1".into() };
        self.dispatcher.watched(&kind, listed, NOW);
    }

    /// Returns the object with a new resource version, as in the hub's response.
    fn versioned(&mut self, mut object: Object) -> Object {
        self.version += 1;
        object.metadata_mut().insert("resourceVersion".into(), self.version.to_string().into());
        object
    }

    /// Changes an object as another client would, and updates the dispatcher.
    fn put(&mut self, kind: &str, object: &Object) {
        let kind = Arc::clone(&self.kinds[kind]);
        let object = kind.convert(&self.versioned(object.clone()));
        self.dispatcher.watched(&kind, WatcherEvent::Applied(object), NOW);
        self.commands.extend(self.dispatcher.due(NOW));
    }

    /// Runs and writes due plans until none is due. Returns the time spent planning, and the numbers of plans and
    /// writes.
    fn settle(&mut self) -> (Duration, usize, usize) {
        let (mut spent, mut plans, mut writes) = (Duration::ZERO, 0, 0);
        loop {
            let mut commands = std::mem::take(&mut self.commands);
            commands.extend(self.dispatcher.due(NOW));
            if commands.is_empty() {
                return (spent, plans, writes);
            }
            for command in commands {
                match command {
                    Command::Decide(decision) => {
                        let start = Instant::now();
                        let decided = decision.run();
                        spent += start.elapsed();
                        self.dispatcher.decided(decided, NOW);
                    }
                    Command::Act(act) => {
                        let written = self.written(act.action());
                        let written = self.versioned(written);
                        self.dispatcher.acted(act.done(Ok(written.into())), NOW);
                        writes += 1;
                    }
                    Command::Reconciled(_) => plans += 1,
                    Command::Compute(_)
                    | Command::LookUp(..)
                    | Command::Watch(_)
                    | Command::Unwatch(_)
                    | Command::Refused(_) => {}
                }
            }
        }
    }

    /// Returns the object that results from an action.
    fn written(&self, action: &Action) -> Object {
        match action {
            Action::Create { object, .. } => object.clone(),
            Action::Patch { target, patch, .. } if target.gvk.kind == "Placement" => {
                self.merged::<Placement>(&target.key, patch)
            }
            Action::Patch { target, patch, .. } => self.merged::<PlacementDecision>(&target.key, patch),
            other => panic!("unexpected {other:?}"),
        }
    }

    fn merged<K: Kind>(&self, key: &Key, patch: &serde_json::Map<String, Value>) -> Object {
        let cached = self.dispatcher.caches().get::<K>(key).unwrap().unwrap();
        let mut object = Object::from_typed(&*cached).into_value();
        json_patch::merge(&mut object, &Value::Object(patch.clone()));
        Object::from_value(object).unwrap()
    }
}

fn cluster(i: usize, team: &str) -> Value {
    json!({
        "metadata": {
            "name": format!("cluster-{i:05}"),
            "uid": format!("00000000-0000-0000-0000-{i:012}"),
            "resourceVersion": "1",
            "labels": {
                "cluster.open-cluster-management.io/clusterset": "default", "env": (["dev", "test", "prod"][i % 3]),
                "region": format!("region-{}", i % 20), "team": team,
            },
        },
        "spec": { "hubAcceptsClient": true, "leaseDurationSeconds": 60 },
        "status": {
            "conditions": [{
                "type": "ManagedClusterConditionAvailable", "status": "True", "reason": "ManagedClusterAvailable",
                "message": "Managed cluster is available", "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
            "allocatable": { "cpu": (i % 64).to_string(), "memory": format!("{}Gi", i % 256) },
            "capacity": { "cpu": "64", "memory": "256Gi" },
            "version": { "kubernetes": "v1.36.0" },
            "clusterClaims": [{ "name": "id.k8s.io", "value": format!("cluster-{i:05}") }, { "name": "platform", "value": "AWS" }],
        },
    })
}

fn placement(i: usize, wanted: Option<usize>) -> Value {
    let labels = json!({ "matchExpressions": [{ "key": "env", "operator": "In", "values": ["test", "prod"] }, { "key": "team", "operator": "Exists" }] });
    json!({
        "metadata": { "namespace": "ns", "name": format!("placement-{i:03}"), "uid": format!("{i}"), "generation": 1, "resourceVersion": "1" },
        "spec": { "numberOfClusters": wanted, "predicates": [{ "requiredClusterSelector": { "labelSelector": labels } }] },
    })
}

/// Returns the resident memory in MiB.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() / 1024
}

/// Measures one fleet size. Returns the time for one changed label.
fn measure(clusters: usize, wanted: Option<usize>) -> Duration {
    let before = memory();
    let mut hub = Hub::new(clusters, wanted);
    let objects = memory() - before;
    let (first, plans, writes) = hub.settle();
    let all = memory() - before;
    // Every placement selects by this label. All of them match the cluster, but none prefers it any longer. The
    // first time, each placement also reads the selections of the others.
    let mut label = |value: &str| {
        let changed = Object::from_value(cluster(clusters - 2, value)).unwrap();
        let start = Instant::now();
        hub.put("ManagedCluster", &changed);
        let routed = start.elapsed();
        let (replanned, replans, rewrites) = hub.settle();
        assert_eq!(replans, PLACEMENTS, "the changed cluster must concern every placement");
        (changed, routed + replanned, rewrites)
    };
    let (_, taken_in, _) = label("2");
    let (changed, one, rewrites) = label("3");
    // The cluster no longer matches any placement.
    let mut lost = changed.clone();
    lost.metadata_mut().insert("labels".into(), json!({}));
    hub.put("ManagedCluster", &lost);
    let (lost, _, lost_writes) = hub.settle();
    let wanted = wanted.map_or("all".to_owned(), |wanted| wanted.to_string());
    println!(
        "{clusters} clusters, {PLACEMENTS} placements of {wanted}: first {first:?} ({plans} plans, {writes} writes), \
         {objects} MiB of objects, {all} MiB in all; one label {one:?} ({PLACEMENTS} plans, {rewrites} writes), the first time {taken_in:?}; \
         one cluster leaves {lost:?} ({lost_writes} writes)"
    );
    println!("  one label / first schedule = 1/{:.0}", first.as_secs_f64() / one.as_secs_f64());
    one
}

fn main() {
    for wanted in [Some(50), None] {
        let small = measure(1_000, wanted);
        let large = measure(10_000, wanted);
        println!(
            "  one label, ten times the clusters: {:.1} times the time",
            large.as_secs_f64() / small.as_secs_f64()
        );
    }
}
