//! Measures the cost of a plan: `cargo bench -p wheelwright-sim --bench plan [-- CLUSTERS [ADDONS]]`.
//!
//! Every cluster has every add-on, at rest. The commit gives one add-on another image, in a Progressive
//! rollout. A small fleet is brought to rest in the simulator and its last cluster is copied, so the objects
//! are those of the operator. The baseline, in the same run, parses the JSON of the snapshot.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a benchmark fails by panicking and reads the clock"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use object::tree::{Checkout, FileTree};
use object::{Key, Object};
use serde_json::{Value, json};
use sim::preview::{HubSnapshot, ProposedCommit, Verdict, preview};
use sim::{World, workload};

const ADDON_API: &str = "addon.open-cluster-management.io/v1alpha1";
/// The cluster that is copied.
const COPIED: &str = "cluster-copied";

fn main() {
    let mut numbers = std::env::args().filter_map(|word| word.parse::<usize>().ok());
    let (clusters, add_ons) = (numbers.next().unwrap_or(3000), numbers.next().unwrap_or(30));
    let world = at_rest(add_ons);
    let HubSnapshot { objects, kinds } = HubSnapshot::of(&world.hub);
    let objects = objects.into_iter().map(Arc::unwrap_or_clone).collect();
    let json = serde_json::to_string(&grown(objects, clusters)).unwrap();
    let (begin, before) = (cpu(), resident("VmRSS"));
    let objects: Vec<Object> = serde_json::from_str(&json).unwrap();
    let parsed = cpu() - begin;
    println!(
        "clusters: {clusters}, add-ons: {add_ons}, objects: {}, {} MB of JSON",
        objects.len(),
        json.len() >> 20
    );
    drop(json);
    println!(
        "bare parsing: {:.2} CPU-s, {} MB",
        parsed.as_secs_f64(),
        resident("VmRSS").saturating_sub(before)
    );

    let objects = objects.into_iter().map(Arc::new).collect();
    let head = Arc::new(Checkout { revision: "2".repeat(40), tree: files(add_ons, "app:2") });
    let succeeds_after = SignedDuration::from_secs(35);
    let commit = ProposedCommit { repo: repo(), base: BTreeMap::new(), head, succeeds_after };
    // The peak begins anew: see proc_pid_clear_refs(5).
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let (begin, before) = (cpu(), resident("VmRSS"));
    let planned = preview(&HubSnapshot { objects, kinds }, &commit, world.now).unwrap();
    let spent = cpu() - begin;
    assert_eq!(planned.verdict, Verdict::Change);
    let moved: usize = planned.works.iter().map(|work| work.clusters.len()).sum();
    assert_eq!(moved, clusters, "every cluster gets the image");
    let ratio = spent.as_secs_f64() / parsed.as_secs_f64();
    println!(
        "plan: {:.2} CPU-s, {ratio:.1} times the bare parsing, at most {} MB more",
        spent.as_secs_f64(),
        resident("VmHWM").saturating_sub(before)
    );
}

fn repo() -> Key {
    Key::namespaced("config", "fleet")
}

/// Returns two clusters with all add-ons, when nothing is left to do.
fn at_rest(add_ons: usize) -> World {
    let mut world = World::new(1, Timestamp::from_second(1_800_000_000).unwrap());
    let allowed = json!({"gitops.wheelwright.dev/operator-identity": "allowed"});
    let metadata = json!({"name": repo().namespace, "labels": allowed});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
    let repo_object = json!({
        "apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo",
        "metadata": {"name": repo().name, "namespace": repo().namespace},
        "spec": {"url": "https://git.example/fleet"},
    });
    for object in [namespace, repo_object] {
        world.apply(Object::from_value(object).unwrap()).unwrap();
    }
    for name in ["cluster-first", COPIED] {
        let images = ["app:1", "app:2"].map(str::to_owned).into();
        let ready_after = SignedDuration::from_secs(3);
        world.join(name, &[], workload::Environment { images, ready_after, nodes: 1 }).unwrap();
    }
    world.commit(&repo(), &"1".repeat(40), files(add_ons, "app:1"));
    world.run_for(SignedDuration::from_mins(30)).unwrap();
    world
}

/// Returns the files of the repository, where the first add-on has an image.
fn files(add_ons: usize, image: &str) -> FileTree {
    let binding = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSetBinding",
        "metadata": {"name": "global", "namespace": "default"}, "spec": {"clusterSet": "global"},
    });
    let placement = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement",
        "metadata": {"name": "fleet", "namespace": "default"}, "spec": {},
    });
    let mut files = FileTree::default();
    let mut add = |name: String, object: &Value| files.insert(name, object.to_string().into_bytes());
    add("binding.yaml".into(), &binding);
    add("placement.yaml".into(), &placement);
    for number in 0..add_ons {
        let [template, add_on] = add_on(number, if number == 0 { image } else { "app:1" });
        add(format!("template-{number}.yaml"), &template);
        add(format!("addon-{number}.yaml"), &add_on);
    }
    files
}

fn add_on(number: usize, image: &str) -> [Value; 2] {
    let name = format!("app-{number}");
    let labels = json!({"app": name});
    let pod =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": image}]}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod},
    });
    let template = json!({
        "apiVersion": ADDON_API, "kind": "AddOnTemplate", "metadata": {"name": name},
        "spec": {"addonName": name, "agentSpec": {"workload": {"manifests": [deployment]}}},
    });
    let config = json!({
        "group": "addon.open-cluster-management.io", "resource": "addontemplates",
        "defaultConfig": {"name": name},
    });
    let strategy = json!({"type": "Progressive", "progressive": {"maxConcurrency": "25%"}});
    let placement = json!({"namespace": "default", "name": "fleet", "rolloutStrategy": strategy});
    let install = json!({"type": "Placements", "placements": [placement]});
    let add_on = json!({
        "apiVersion": ADDON_API, "kind": "ClusterManagementAddOn", "metadata": {"name": name},
        "spec": {"supportedConfigs": [config], "installStrategy": install},
    });
    [template, add_on]
}

/// Copies the objects of one cluster until there are so many clusters. Decisions of the placement and counts
/// in statuses are left to the controllers, which write them when the plan begins.
fn grown(objects: Vec<Object>, clusters: usize) -> Vec<Object> {
    let of_copied = |object: &&Object| {
        let key = object.key();
        object.kind() != "PlacementDecision" && (key.namespace == COPIED || key.name.contains(COPIED))
    };
    let copied: Vec<Object> = objects.iter().filter(of_copied).cloned().collect();
    let uids: Vec<String> = copied.iter().map(|object| object.uid().to_owned()).collect();
    let texts: Vec<String> = copied.iter().map(|object| serde_json::to_string(object).unwrap()).collect();
    let mut grown = objects;
    for number in 2..clusters {
        for text in &texts {
            let mut text = text.replace(COPIED, &format!("cluster-{number}"));
            for uid in uids.iter().filter(|uid| !uid.is_empty()) {
                if text.contains(uid.as_str()) {
                    text = text.replace(uid.as_str(), &format!("{uid}-{number}"));
                }
            }
            grown.push(serde_json::from_str(&text).unwrap());
        }
    }
    grown
}

/// Returns the CPU time of this thread, which other work on the machine changes little.
fn cpu() -> Duration {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(spent.split_whitespace().next().unwrap().parse().unwrap())
}

/// Returns a figure of the memory of this process in MB.
fn resident(figure: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(figure)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() >> 10
}
