//! Measures the cost of a plan.
//!
//! `cargo bench -p wheelwright-sim --bench plan [-- CLUSTERS [ADDONS [report]]]`
//!
//! Every cluster has every add-on, at rest. The commit gives one add-on another image, in a Progressive rollout.
//! The benchmark brings a small fleet to rest in the simulator and copies its last cluster, so the objects are
//! what the operator writes. The plan reads the objects' JSON or a report of them. The baseline, in the same run,
//! parses the JSON.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a benchmark fails by panicking and reads the clock"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::report::{SnapshotReader, snapshot};
use jiff::{SignedDuration, Timestamp};
use object::tree::{Checkout, FileTree};
use object::{Key, Object};
use preview::{HubSnapshot, LeftOut, Preview, PreviewError, ProposedCommit, Verdict, of_report, preview};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sim::{World, workload};

const ADDON_API: &str = "addon.open-cluster-management.io/v1alpha1";
/// The cluster to copy.
const COPIED: &str = "cluster-copied";

fn main() {
    let mut numbers = std::env::args().filter_map(|word| word.parse::<usize>().ok());
    let (clusters, add_ons) = (numbers.next().unwrap_or(3000), numbers.next().unwrap_or(30));
    let world = at_rest(add_ons);
    let HubSnapshot { objects, .. } = HubSnapshot::new(&world.hub);
    let json = grown(&objects, clusters);
    let begin = cpu();
    for object in &json {
        serde_json::from_str::<Object>(object.get()).unwrap();
    }
    let parsed = cpu() - begin;
    println!(
        "clusters: {clusters}, add-ons: {add_ons}, objects: {}, {} MB of JSON",
        json.len(),
        json.iter().map(|object| object.get().len()).sum::<usize>() >> 20
    );
    println!("bare parsing: {:.2} CPU-s", parsed.as_secs_f64());

    let begin = cpu();
    let all = json.iter().map(|object| serde_json::from_str::<Object>(object.get()).unwrap());
    let report = snapshot(all, world.now).unwrap();
    println!(
        "snapshot of a report: {} files, {:.1} MB, written in {:.2} CPU-s, parsing included",
        report.len(),
        report.values().map(String::len).sum::<usize>() as f64 / 1e6,
        (cpu() - begin).as_secs_f64()
    );

    let checkout =
        |number: &str, image| Arc::new(Checkout { revision: number.repeat(40), tree: files(add_ons, image) });
    let of_json = |left_out: &mut LeftOut| {
        let objects = json.iter().filter_map(|json| left_out.read(json).unwrap()).map(Arc::new).collect();
        HubSnapshot { objects, ..HubSnapshot::default() }
    };
    let of_report = |left_out: &mut LeftOut| {
        let mut reader = SnapshotReader::default();
        let read = |file: &String| left_out.read_reported(&mut reader, file).unwrap();
        of_report(report.values().flat_map(read).collect(), &repo(), world.now).snapshot
    };
    let (base, read): (_, &dyn Fn(&mut LeftOut) -> HubSnapshot) =
        match std::env::args().any(|word| word == "report") {
            true => (BTreeMap::from([(repo(), checkout("1", "app:1"))]), &of_report),
            false => (BTreeMap::new(), &of_json),
        };
    let succeeds_after = SignedDuration::from_secs(35);
    let commit = ProposedCommit {
        repo: repo(),
        base,
        head: checkout("2", "app:2"),
        refused: BTreeMap::new(),
        seeds: BTreeMap::new(),
        keys: BTreeMap::new(),
        succeeds_after,
        meets_deadlines: true,
    };
    // Reset the peak: see proc_pid_clear_refs(5).
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let (begin, before) = (cpu(), resident("VmRSS"));
    let planned = plan(read, &commit, world.now);
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

/// Reads the fleet and plans, then reads whatever else the plan asks for.
fn plan(read: &dyn Fn(&mut LeftOut) -> HubSnapshot, commit: &ProposedCommit, now: Timestamp) -> Preview {
    let mut left_out = LeftOut::default();
    loop {
        let begin = cpu();
        let snapshot = read(&mut left_out);
        let snapshot = HubSnapshot { left_out, ..snapshot };
        let read = cpu() - begin;
        println!("read: {} objects in {:.2} CPU-s", snapshot.objects.len(), read.as_secs_f64());
        match preview(&snapshot, commit, now) {
            Err(PreviewError::LeftOut(scope)) => left_out = LeftOut::but(scope),
            planned => return planned.unwrap(),
        }
    }
}

fn repo() -> Key {
    Key::namespaced("config", "fleet")
}

/// Returns two clusters with all add-ons, at rest.
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

/// Returns the files of the repository, with the given image for the first add-on.
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

/// Returns the objects, with one cluster's objects copied until there are `clusters` clusters. The controllers
/// write the placement's decisions and the status counts when the plan begins.
fn grown(objects: &[Arc<Object>], clusters: usize) -> Vec<Box<RawValue>> {
    let is_copied = |object: &&Arc<Object>| {
        let key = object.key();
        object.kind() != "PlacementDecision" && (key.namespace == COPIED || key.name.contains(COPIED))
    };
    let copied: Vec<&Arc<Object>> = objects.iter().filter(is_copied).collect();
    let uids: Vec<String> = copied.iter().map(|object| object.uid().to_owned()).collect();
    let text = |object: &Arc<Object>| serde_json::to_string(&**object).unwrap();
    let texts: Vec<String> = copied.iter().map(|object| text(object)).collect();
    let mut grown: Vec<String> = objects.iter().map(text).collect();
    for number in 2..clusters {
        for text in &texts {
            let mut text = text.replace(COPIED, &format!("cluster-{number}"));
            for uid in uids.iter().filter(|uid| !uid.is_empty()) {
                if text.contains(uid.as_str()) {
                    text = text.replace(uid.as_str(), &format!("{uid}-{number}"));
                }
            }
            grown.push(text);
        }
    }
    grown.into_iter().map(|text| RawValue::from_string(text).unwrap()).collect()
}

/// Returns the CPU time of this thread, which is largely independent of other load on the machine.
fn cpu() -> Duration {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(spent.split_whitespace().next().unwrap().parse().unwrap())
}

/// Returns a memory figure of this process in MB.
fn resident(figure: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(figure)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() >> 10
}
