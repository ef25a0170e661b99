//! What scheduling costs: `cargo bench --bench placement`.
//!
//! 100 placements over 10,000 clusters through the controller and its caches, without an API server: the first schedule, one
//! changed label, and the same over 1,000 clusters, because one change must not cost more where there are more clusters.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a benchmark fails by panicking and reads the clock"
)]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use api::cluster::v1::ManagedCluster;
use api::cluster::v1alpha1::AddOnPlacementScore;
use api::cluster::v1beta1::{Placement, PlacementDecision};
use api::cluster::v1beta2::{ManagedClusterSet, ManagedClusterSetBinding};
use controllers::hub::placement::PlacementController;
use jiff::Timestamp;
use object::{Key, Kind, Object, ObjectRef};
use reconcile::{Action, Caches, Change, Controller, Delta, Plan, Routes, Site, Watches};
use serde_json::{Value, json};

const PLACEMENTS: usize = 100;

/// A hub in memory: caches, and who is woken by what.
struct Hub {
    caches: Caches,
    routes: Wiring,
    version: u64,
    woken: BTreeSet<Key>,
}

#[derive(Default)]
struct Wiring(Routes);

impl Watches for Wiring {
    type View = Caches;

    fn on_site<K: Kind>(&mut self, site: Site, wakes: fn(&Change<K>, &Caches) -> Vec<Key>) {
        self.0.add(0, site, wakes);
    }

    fn on_observed(&mut self, _: fn(&Change<Object>, &Caches) -> Vec<Key>) {}
}

impl Hub {
    fn new(clusters: usize, wanted: Option<usize>) -> Self {
        let mut routes = Wiring::default();
        PlacementController::watches(&mut routes);
        routes.on::<Placement>(|change, _| change.sides().take(1).map(Key::of).collect());
        let mut hub = Self { caches: Caches::default(), routes, version: 1, woken: BTreeSet::new() };
        let set = json!({
            "metadata": { "name": "global", "resourceVersion": "1" },
            "spec": { "clusterSelector": { "selectorType": "LabelSelector", "labelSelector": {} } },
        });
        let binding = json!({ "metadata": { "name": "global", "namespace": "ns", "resourceVersion": "1" }, "spec": { "clusterSet": "global" } });
        hub.list::<ManagedClusterSet>(vec![set]);
        hub.list::<ManagedClusterSetBinding>(vec![binding]);
        hub.list::<AddOnPlacementScore>(Vec::new());
        hub.list::<PlacementDecision>(Vec::new());
        hub.list::<ManagedCluster>((0..clusters).map(|i| cluster(i, "1")).collect());
        hub.list::<Placement>((0..PLACEMENTS).map(|i| placement(i, wanted)).collect());
        hub
    }

    fn list<K: Kind>(&mut self, objects: Vec<Value>) {
        let typed = objects.into_iter().map(|object| serde_json::from_value(object).unwrap()).collect();
        for change in self.caches.replace::<K>(Site::Hub, typed, "1") {
            self.woken
                .extend(self.routes.0.wake(Site::Hub, &change, &self.caches).into_iter().map(|(_, key)| key));
        }
    }

    fn put<K: Kind>(&mut self, object: &Object) {
        self.version += 1;
        let mut object = object.clone();
        object.metadata_mut().insert("resourceVersion".into(), self.version.to_string().into());
        let change = self.caches.apply::<K>(Site::Hub, Delta::Seen(object.to_typed().unwrap())).unwrap();
        self.woken
            .extend(self.routes.0.wake(Site::Hub, &change, &self.caches).into_iter().map(|(_, key)| key));
    }

    /// Plans what is due and writes it, until nothing is due; the time of planning alone, and how many plans and writes there were.
    fn settle(&mut self) -> (Duration, usize, usize) {
        let now = Timestamp::from_second(1_700_000_000).unwrap();
        let (mut spent, mut plans, mut writes) = (Duration::ZERO, 0, 0);
        while let Some(key) = self.woken.pop_first() {
            let start = Instant::now();
            let plan = PlacementController::plan(&key, &self.caches, now).unwrap();
            spent += start.elapsed();
            plans += 1;
            writes += self.execute(plan);
        }
        (spent, plans, writes)
    }

    fn execute(&mut self, plan: Plan) -> usize {
        let actions: Vec<Action> = plan
            .steps
            .into_iter()
            .flatten()
            .chain(plan.status.as_ref().map(|status| status.action()))
            .collect();
        for action in &actions {
            match action {
                Action::Create { object, .. } => self.put::<PlacementDecision>(object),
                Action::Patch { target, patch, .. } if target.gvk.kind == "Placement" => {
                    self.merge::<Placement>(target, patch)
                }
                Action::Patch { target, patch, .. } => self.merge::<PlacementDecision>(target, patch),
                other => panic!("unexpected {other:?}"),
            }
        }
        actions.len()
    }

    fn merge<K: Kind>(&mut self, target: &ObjectRef, patch: &serde_json::Map<String, Value>) {
        use reconcile::View as _;
        let mut object =
            Object::from_typed(&*self.caches.get::<K>(&target.key).unwrap().unwrap()).into_value();
        json_patch::merge(&mut object, &Value::Object(patch.clone()));
        self.put::<K>(&Object::from_value(object).unwrap());
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

/// Resident memory in MiB.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() / 1024
}

/// Measures one size of fleet; returns the time of one changed label.
fn measure(clusters: usize, wanted: Option<usize>) -> Duration {
    let before = memory();
    let mut hub = Hub::new(clusters, wanted);
    let objects = memory() - before;
    let (first, plans, writes) = hub.settle();
    let all = memory() - before;
    // A label that every placement asks for, on a cluster that all of them match and none needs any more than others. The first time,
    // each placement also takes in what the others have selected.
    let mut label = |value: &str| {
        let changed = Object::from_value(cluster(clusters - 2, value)).unwrap();
        let start = Instant::now();
        hub.put::<ManagedCluster>(&changed);
        let routed = start.elapsed();
        let (replanned, replans, rewrites) = hub.settle();
        assert_eq!(replans, PLACEMENTS, "the changed cluster must concern every placement");
        (changed, routed + replanned, rewrites)
    };
    let (_, taken_in, _) = label("2");
    let (changed, one, rewrites) = label("3");
    // The same cluster no longer fits any placement.
    let mut lost = changed.clone();
    lost.metadata_mut().insert("labels".into(), json!({}));
    hub.put::<ManagedCluster>(&lost);
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
