//! The operator and the agents crash before or after each of their writes. They have no memory after the restart.
//!
//! A run without a crash counts the writes of a scenario. In every other run all processes crash at one of these
//! writes. At the end the fleet must be the same, and every object must have had the same contents in the same
//! order.

mod deletions;
mod moves;
mod ownership;
mod waits;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::fixtures::{cluster, config_repo, join, put, put_work, repo, seconds};
use api::cluster::v1::ManagedCluster;
use api::work::v1::ManifestWork;
use object::tree::FileTree;
use object::{Key, Object};
use reconcile::{Action, Failure, FailureKind, Outcome};
use sim::{Servers, Setup, World, Write, execute};

const ADDON_GROUP: &str = "addon.open-cluster-management.io";
const CLUSTER_GROUP: &str = "cluster.open-cluster-management.io";
/// Time for the fleet to come to rest again: deadlines are 20 s, leases a minute.
const SETTLE: i64 = 150;

/// The date of all events, as formatted in timestamps.
const DATE: &str = "2027-01-15T";

/// When the crash happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// Before the write, which does not happen.
    Before,
    /// After the write, before the process gets the answer.
    After,
}

/// The crash of all processes at one write.
#[derive(Default)]
struct Crash {
    /// The number of writes since the scenario began; `None` before it begins.
    writes: Option<usize>,
    at: Option<(usize, Moment)>,
    is_dead: bool,
}

thread_local! {
    static CRASH: RefCell<Crash> = RefCell::default();
}

/// Executes an action or crashes.
fn execute_or_die(sites: &mut Servers<'_>, manager: &str, action: &Action, now: Timestamp) -> Outcome {
    let dead = || Err(Failure { kind: FailureKind::Unavailable, message: "the process is dead".into() });
    let moment = CRASH.with_borrow_mut(|crash| {
        if crash.is_dead {
            return Some(Moment::Before);
        }
        let writes = crash.writes.as_mut().filter(|_| is_counted(action))?;
        *writes += 1;
        let moment = crash.at.filter(|(at, _)| at == writes).map(|(_, moment)| moment);
        crash.is_dead = moment.is_some();
        moment
    });
    match moment {
        None => execute(sites, manager, action, now),
        Some(Moment::Before) => dead(),
        Some(Moment::After) => {
            // The outcome is lost with the process.
            let _ = execute(sites, manager, action, now);
            dead()
        }
    }
}

/// Returns true if a write counts: dry runs change nothing, and leases are always renewed.
fn is_counted(action: &Action) -> bool {
    match action {
        Action::Apply { object, dry_run, .. } => !dry_run && object.kind() != "Lease",
        Action::Create { object, .. } | Action::Replace { object, .. } => object.kind() != "Lease",
        Action::Patch { target, .. } | Action::Delete { target, .. } => target.gvk.kind != "Lease",
        Action::Push(_) | Action::SetCommitStatus(_) | Action::Notify(_) => true,
    }
}

/// A change that a person makes to a fleet at rest.
struct Scenario {
    prepare: fn(&mut World),
    act: fn(&mut World),
}

/// An object of the hub or of a spoke.
type Id = (String, String);

/// The result of a run.
struct Ended {
    writes: usize,
    objects: BTreeMap<Id, Value>,
    /// The contents that each object had; null after its deletion.
    contents: BTreeMap<Id, Vec<Value>>,
    /// The files of the last report.
    report: Value,
}

fn run(scenario: &Scenario, at: Option<(usize, Moment)>) -> Ended {
    CRASH.set(Crash { at, ..Crash::default() });
    let setup = Setup { execute: execute_or_die, ..Setup::default() };
    let mut world = World::with(setup, 7, Timestamp::from_second(1_800_000_000).unwrap());
    world.keep_history();
    (scenario.prepare)(&mut world);
    world.run_for(seconds(SETTLE)).unwrap();
    let before = world.take_history();
    CRASH.with_borrow_mut(|crash| crash.writes = Some(0));
    (scenario.act)(&mut world);
    if at.is_some() {
        let dies = |_: &World| CRASH.with_borrow(|crash| crash.is_dead);
        assert!(world.run_until(seconds(SETTLE), dies).unwrap(), "the write does not come");
        world.restart_operator();
        let clusters: Vec<String> = world.spokes.keys().cloned().collect();
        clusters.iter().for_each(|cluster| world.restart_agent(cluster));
        CRASH.with_borrow_mut(|crash| crash.is_dead = false);
    }
    world.run_for(seconds(SETTLE)).unwrap();
    let writes = CRASH.with_borrow(|crash| crash.writes.unwrap());
    let during = world.take_history();
    let objects = objects(before.iter().chain(&during));
    let tips = world.branches.values().filter_map(|commits| commits.last());
    // If a crash delays a rollout, its timeline has another scale.
    let is_equal = |(path, _): &(&String, &String)| !path.ends_with(".svg");
    let files = tips.map(|push| format!("{:?}", push.files.iter().filter(is_equal).collect::<Vec<_>>()));
    Ended { writes, objects, contents: contents(&during), report: files.collect() }
}

fn id(write: &Write) -> Id {
    (write.spoke.clone().unwrap_or_default(), write.id.to_string())
}

fn objects<'a>(writes: impl Iterator<Item = &'a Write>) -> BTreeMap<Id, Value> {
    let mut objects = BTreeMap::new();
    for write in writes.filter(|write| write.id.kind != "Lease") {
        match &write.after {
            Some(object) => objects.insert(id(write), normal(object)),
            None => objects.remove(&id(write)),
        };
    }
    objects
}

/// Returns the parts of an object that do not depend on when and how often it was written.
fn normal(object: &Object) -> Value {
    let mut object = object.clone();
    let metadata = object.metadata_mut();
    for noise in ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"] {
        metadata.remove(noise);
    }
    let mut value = object.into_value();
    // After a crash, the number and times of earlier reports differ. The digest covers the files, including the
    // timeline.
    if let Some(report) = value.pointer_mut("/status/report").and_then(Value::as_object_mut) {
        report.retain(|name, _| !matches!(name.as_str(), "commit" | "digest" | "flushed" | "history"));
    }
    // Ignore waits, because a crash may skip them.
    if let Some(history) = value.pointer_mut("/status/history").and_then(Value::as_array_mut) {
        history.retain(|result| result["reason"] == "Applied");
    }
    remove_noise(&mut value);
    value
}

fn remove_noise(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let is_noise = |name: &str| {
                name.ends_with("Time") || matches!(name, "uid" | "observedGeneration" | "resourceVersion")
            };
            // Taints that were added and removed leave an empty list.
            fields.retain(|name, value| !(is_noise(name) || name == "taints" && *value == json!([])));
            fields.values_mut().for_each(remove_noise);
        }
        Value::Array(items) => {
            items.iter_mut().for_each(remove_noise);
            // Conditions and status values keep the order in which they were first reported.
            if items.iter().all(|item| item.get("type").or(item.get("fieldValue")).is_some()) {
                items.sort_by_key(Value::to_string);
            }
        }
        Value::String(text) if text.contains(DATE) => *text = "a time".into(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns each object's contents in order, without the status, cluster taints and inventories, which record steps
/// and times.
fn contents(writes: &[Write]) -> BTreeMap<Id, Vec<Value>> {
    let mut contents: BTreeMap<Id, Vec<Value>> = BTreeMap::new();
    let is_record = |write: &&Write| matches!(write.id.kind.as_str(), "Lease" | "ConfigRepoInventory");
    for write in writes.iter().filter(|write| !is_record(write)) {
        let content = write.after.as_ref().map_or(Value::Null, |object| {
            let mut object = normal(object);
            for field in ["status", "metadata"] {
                object.as_object_mut().unwrap().remove(field);
            }
            if write.id.kind == "ManagedCluster" {
                object["spec"].as_object_mut().unwrap().remove("taints");
            }
            object
        });
        let of = contents.entry(id(write)).or_default();
        if of.last() != Some(&content) {
            of.push(content);
        }
    }
    contents
}

/// Crashes the processes at every write. Returns the result of the run without a crash.
fn check(scenario: &Scenario) -> Ended {
    let calm = run(scenario, None);
    assert!(calm.writes > 0, "the scenario writes nothing");
    // `make chaos` plays both moments of every write; otherwise they alternate.
    let is_long = std::env::var_os("CRASHES").is_some_and(|crashes| crashes == "all");
    let (mut broken, mut crashes) = (Vec::new(), 0);
    for at in 1..=calm.writes {
        let moments = [Moment::Before, Moment::After];
        let played = if is_long { &moments[..] } else { &moments[at % 2..=at % 2] };
        for &moment in played {
            crashes += 1;
            let crashed = run(scenario, Some((at, moment)));
            let mut differs = difference("object", &calm.objects, &crashed.objects, |one| one.clone());
            let listed = |contents: &Vec<Value>| Value::from(contents.clone());
            differs.extend(difference("contents of", &calm.contents, &crashed.contents, listed));
            if calm.report != crashed.report {
                differs.push(format!("the report: {} and {}", calm.report, crashed.report));
            }
            broken.extend(differs.into_iter().map(|what| format!("{moment:?} write {at}: {what}")));
        }
    }
    eprintln!("{} writes, {crashes} crashes", calm.writes);
    broken.truncate(20);
    assert!(broken.is_empty(), "differences, the first of them:\n{}", broken.join("\n"));
    calm
}

fn difference<T: PartialEq>(
    what: &str,
    calm: &BTreeMap<Id, T>,
    crashed: &BTreeMap<Id, T>,
    shown: impl Fn(&T) -> Value,
) -> Vec<String> {
    let ids: BTreeSet<&Id> = calm.keys().chain(crashed.keys()).collect();
    let differ = ids.into_iter().filter(|id| calm.get(*id) != crashed.get(*id));
    let describe = |id: &Id| {
        let [before, after] = [calm, crashed].map(|of| of.get(id).map_or(Value::Null, &shown));
        format!("{what} {id:?}: {}", object::merge_diff(&before, &after).unwrap_or_default())
    };
    differ.map(describe).collect()
}

/// Returns the files of a commit: a config map, and an add-on of some version for all clusters.
fn files(map: &str, version: Option<&str>) -> FileTree {
    let mut objects = vec![json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": map}})];
    if let Some(version) = version {
        let labels = json!({"app": "msa"});
        let container = json!({"name": "agent", "image": format!("msa:{version}")});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "msa", "namespace": "default"},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}},
        });
        let canary = json!({"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": "true"}}}});
        let progressive = json!({"mandatoryDecisionGroups": [{"groupName": "canary"}], "maxConcurrency": 1, "progressDeadline": "20s"});
        let placement = json!({"namespace": "config", "name": "fleet",
            "rolloutStrategy": {"type": "Progressive", "progressive": progressive}});
        objects.extend([
            json!({"apiVersion": format!("{CLUSTER_GROUP}/v1beta2"), "kind": "ManagedClusterSetBinding",
                "metadata": {"name": "global"}, "spec": {"clusterSet": "global"}}),
            json!({"apiVersion": format!("{CLUSTER_GROUP}/v1beta1"), "kind": "Placement", "metadata": {"name": "fleet"},
                "spec": {"tolerations": [{"operator": "Exists"}],
                    "decisionStrategy": {"groupStrategy": {"decisionGroups": [canary]}}}}),
            json!({"apiVersion": format!("{ADDON_GROUP}/v1alpha1"), "kind": "AddOnTemplate", "metadata": {"name": "msa"},
                "spec": {"addonName": "msa", "agentSpec": {"workload": {"manifests": [deployment]}}}}),
            json!({"apiVersion": format!("{ADDON_GROUP}/v1alpha1"), "kind": "ClusterManagementAddOn", "metadata": {"name": "msa"},
                "spec": {
                    "supportedConfigs": [{"group": ADDON_GROUP, "resource": "addontemplates", "defaultConfig": {"name": "msa"}}],
                    "installStrategy": {"type": "Placements", "placements": [placement]}}}),
        ]);
    }
    tree(&objects)
}

/// Returns a file for each object.
fn tree(objects: &[Value]) -> FileTree {
    let file =
        |(number, object): (usize, &Value)| (format!("{number}.yaml"), object.to_string().into_bytes());
    objects.iter().enumerate().map(file).collect()
}

fn follow(world: &mut World, url: &str) {
    let spec = json!({"url": url, "report": {"interval": "1s"}, "deletionBudget": {"objects": 20}});
    config_repo(world, &repo(), spec);
}

fn commit(world: &mut World, number: u32, files: FileTree) {
    world.commit(&repo(), &format!("{number:040x}"), files);
}

/// Creates two clusters, one of them the canary, and an empty repository.
fn fleet(world: &mut World) {
    for i in 0..2 {
        join(world, i, i == 0, seconds(1));
    }
    follow(world, "https://git.example/fleet");
}

/// Creates the same fleet with the add-on.
fn installed(world: &mut World) {
    fleet(world);
    commit(world, 1, files("map", Some("0.4.0")));
}

fn policy(world: &mut World, spec: Value) {
    put(
        world,
        json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "RolloutPolicy", "metadata": {"name": "p"}, "spec": spec}),
    );
}

fn work(world: &mut World) {
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map", "namespace": "default"}});
    let spec = json!({"workload": {"manifests": [map]}});
    put_work(world, json!({"name": "w", "namespace": "cluster1"}), spec);
}

#[test]
fn an_installation_survives_a_crash_at_every_write() {
    check(&Scenario { prepare: fleet, act: |world| commit(world, 1, files("map", Some("0.4.0"))) });
}

#[test]
fn an_edit_survives_a_crash_at_every_write() {
    check(&Scenario { prepare: installed, act: |world| commit(world, 2, files("map", Some("0.4.1"))) });
}

#[test]
fn a_rollback_survives_a_crash_at_every_write() {
    let prepare = |world: &mut World| {
        policy(world, json!({"onBreach": "Rollback", "success": "Available"}));
        installed(world);
    };
    check(&Scenario { prepare, act: |world| commit(world, 2, files("map", Some("broken"))) });
}

#[test]
fn an_uninstallation_survives_a_crash_at_every_write() {
    check(&Scenario { prepare: installed, act: |world| commit(world, 2, files("map", None)) });
}

#[test]
fn a_switch_of_the_repository_survives_a_crash_at_every_write() {
    let act = |world: &mut World| {
        follow(world, "https://git.example/other");
        commit(world, 2, files("other", Some("0.4.1")));
    };
    check(&Scenario { prepare: installed, act });
}

#[test]
fn a_registration_survives_a_crash_at_every_write() {
    check(&Scenario { prepare: installed, act: |world| join(world, 2, false, seconds(1)) });
}

#[test]
fn the_farewell_of_a_cluster_survives_a_crash_at_every_write() {
    let leave = |world: &mut World| world.delete::<ManagedCluster>(&Key::cluster(cluster(1))).unwrap();
    check(&Scenario { prepare: installed, act: leave });
}

#[test]
fn the_end_of_a_work_survives_a_crash_at_every_write() {
    let prepare = |world: &mut World| {
        fleet(world);
        world.run_for(seconds(10)).unwrap();
        work(world);
    };
    let act = |world: &mut World| world.delete::<ManifestWork>(&Key::namespaced("cluster1", "w")).unwrap();
    check(&Scenario { prepare, act });
}

#[test]
fn a_report_survives_a_crash_at_every_write() {
    check(&Scenario { prepare: installed, act: |world| commit(world, 2, files("renamed", Some("0.4.0"))) });
}
