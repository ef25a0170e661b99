//! Records rollout statuses as examples for Argo CD health checks. `tests/argocd/health.rs` runs the checks on
//! them, and `tests/kstatus` evaluates them with kstatus.

use std::path::Path;

use api::addon::v1alpha1::ClusterManagementAddOn;
use api::condition::Conditions as _;
use object::{Key, Object};
use serde_json::{Value, json};
use sim::World;

use crate::fixtures::{
    ADDON, addon, is_completed, progress, progressive, seconds, select_all, template, world,
};
use crate::golden;
use crate::replica_sets::{self, bad, get, policy, refs, set, set_with, settle};

/// Formats an object as an example. All its times get the same value because they depend on the simulator's
/// delays.
fn example(mut object: Value) -> String {
    let name = object["metadata"]["name"].take();
    let generation = object["metadata"]["generation"].take();
    object["metadata"] = json!({"name": name, "generation": generation});
    if object["kind"] == "ManifestWorkReplicaSet" {
        object["spec"]["manifestWorkTemplate"] = json!({"workload": {"manifests": []}});
    }
    unify_times(&mut object["status"]);
    format!("{object:#}\n")
}

fn unify_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match name.as_str() {
                    "lastTransitionTime" => *field = json!("2026-03-02T08:00:00Z"),
                    _ => unify_times(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(unify_times),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn set_example(world: &World) -> String {
    example(Object::from_typed(&get(world)).into_value())
}

fn addon_example(world: &World) -> String {
    let cma: ClusterManagementAddOn = world.get(&Key::cluster(ADDON)).unwrap();
    example(Object::from_typed(&cma).into_value())
}

fn check(kind: &str, examples: impl IntoIterator<Item = (&'static str, String)>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/argocd/resource_customizations");
    let examples = examples.into_iter();
    golden::check(examples.map(|(name, text)| (root.join(kind).join(format!("testdata/{name}.json")), text)));
}

/// Returns three clusters with the first version of a replica set.
fn rolled_out() -> World {
    let mut world = world(3);
    select_all(&mut world);
    set(&mut world, "1", progressive());
    settle(&mut world);
    world
}

fn put_bad(world: &mut World, strategy: Value) {
    set_with(world, json!({"manifestWorkTemplate": bad(), "placementRefs": refs("fleet", strategy)}));
}

#[test]
fn the_examples_of_sets_are_what_the_controller_writes() {
    let mut world = rolled_out();
    let complete = set_example(&world);
    let mut soaking = progressive();
    soaking["progressive"]["minSuccessTime"] = json!("10s");
    set(&mut world, "2", soaking);
    let between = |world: &World| {
        let summary = get(world).status.unwrap().summary;
        summary.updated == Some(1) && summary.available == 1 && summary.progressing == 0
    };
    assert!(world.run_until(seconds(30), between).unwrap());
    let rolling = set_example(&world);
    settle(&mut world);

    policy(&mut world, json!({"paused": true}));
    set(&mut world, "3", progressive());
    world.run_for(seconds(30)).unwrap();
    let paused = set_example(&world);

    let mut world = rolled_out();
    put_bad(&mut world, progressive());
    world.run_for(seconds(300)).unwrap();
    let failed = set_example(&world);

    let mut world = rolled_out();
    policy(&mut world, json!({"replicaSets": ["default/settings"], "onBreach": "Rollback"}));
    put_bad(&mut world, progressive());
    world.run_for(seconds(1800)).unwrap();
    let rolled_back = set_example(&world);

    let mut world = rolled_out();
    put_bad(&mut world, json!({"type": "All", "all": {"progressDeadline": "20s"}}));
    world.run_for(seconds(300)).unwrap();
    let failed_everywhere = set_example(&world);
    assert!(get(&world).holds("Stalled"), "no budget stops a rollout of the type All");

    check(
        "work.open-cluster-management.io/ManifestWorkReplicaSet",
        [
            ("complete", complete),
            ("rolling", rolling),
            ("paused", paused),
            ("failed", failed),
            ("rolled_back", rolled_back),
            ("failed_everywhere", failed_everywhere),
        ],
    );
}

/// Returns three clusters with the first version of an add-on.
fn installed() -> World {
    let mut world = world(3);
    template(&mut world, "msa", "msa:0.4.0");
    addon(&mut world, "msa", progressive());
    select_all(&mut world);
    assert!(world.run_until(seconds(120), is_completed).unwrap(), "{:?}", progress(&world));
    world
}

#[test]
fn the_examples_of_add_ons_are_what_the_controller_writes() {
    let mut world = installed();
    let complete = addon_example(&world);
    template(&mut world, "msa", "msa:0.4.1");
    let between = |world: &World| progress(world).1.contains("configured addons 1/3 progressing");
    assert!(world.run_until(seconds(30), between).unwrap());
    let canary = addon_example(&world);
    assert!(world.run_until(seconds(120), is_completed).unwrap());

    replica_sets::policy(&mut world, json!({"paused": true}));
    template(&mut world, "msa", "msa:0.4.0");
    world.run_for(seconds(30)).unwrap();
    let paused = addon_example(&world);

    let mut world = installed();
    template(&mut world, "msa", "msa:none");
    world.run_for(seconds(300)).unwrap();
    let failed = addon_example(&world);

    let mut world = installed();
    replica_sets::policy(&mut world, json!({"addOns": [ADDON], "onBreach": "Rollback"}));
    template(&mut world, "msa", "msa:none");
    world.run_for(seconds(1800)).unwrap();
    let rolled_back = addon_example(&world);

    check(
        "addon.open-cluster-management.io/ClusterManagementAddOn",
        [
            ("complete", complete),
            ("canary", canary),
            ("paused", paused),
            ("failed", failed),
            ("rolled_back", rolled_back),
        ],
    );
}
