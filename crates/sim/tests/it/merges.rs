//! Objects of works that server-side apply rejects because a list has two entries with the same key.

use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};

use crate::fixtures::{put_work, seconds, world};
use api::condition::Conditions as _;
use api::work::v1::ManifestWork;
use object::Key;
use sim::World;
use store::{Patch, ResourcePath, WriteOptions};

/// Writes a work with a Deployment whose container sets one variable to each of these values; returns the values
/// in the resulting Deployment.
fn apply(world: &mut World, values: &[&str]) -> Vec<String> {
    let env: Vec<Value> = values.iter().map(|value| json!({"name": "X", "value": value})).collect();
    let container =
        json!({"name": "a", "image": "i:1", "env": env, "resources": {"limits": {"cpu": "1000m"}}});
    let manifest = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": {
            "metadata": {"labels": {"app": "d"}}, "spec": {"containers": [container]}}},
    });
    let spec = json!({"workload": {"manifests": [manifest]}});
    put_work(world, json!({"name": "w", "namespace": "cluster1"}), spec);
    world.run_for(seconds(10)).unwrap();
    let work: ManifestWork = world.get(&Key::namespaced("cluster1", "w")).unwrap();
    assert!(
        work.status.as_ref().unwrap().conditions.iter().any(|c| c.type_ == "Applied" && c.is_true()),
        "{work:?}"
    );
    assert!(work.holds("Available"));
    env_values(world)
}

fn deployment(world: &World) -> Deployment {
    let target = ResourcePath::resource("apps", "v1", "deployments").at(&Key::namespaced("default", "d"));
    let object = world.spokes["cluster1"].store.get(&target).unwrap();
    serde_json::from_value(Value::Object(object.0.clone())).unwrap()
}

fn env_values(world: &World) -> Vec<String> {
    let spec = deployment(world).spec.template.spec.unwrap();
    spec.containers[0].env.iter().flatten().filter_map(|variable| variable.value.clone()).collect()
}

fn patch_by_another(world: &mut World, patch: Value) {
    let target = ResourcePath::resource("apps", "v1", "deployments").at(&Key::namespaced("default", "d"));
    let (now, spoke) = (world.now, world.spokes.get_mut("cluster1").unwrap());
    spoke.store.patch(&target, &Patch::Merge(patch), &WriteOptions::manager("somebody"), now).unwrap();
}

#[test]
fn an_object_with_a_variable_twice_is_updated_and_left_alone_in_between() {
    let mut world = world(1);
    assert_eq!(apply(&mut world, &["1", "2"]), ["1", "2"]);
    patch_by_another(&mut world, json!({"metadata": {"labels": {"of": "others"}}, "spec": {"replicas": 3}}));
    let revisions = |world: &World| (world.hub.revision(), world.spokes["cluster1"].store.revision());
    world.run_for(seconds(60)).unwrap();
    let before = revisions(&world);
    world.restart_agent("cluster1");
    world.run_for(seconds(1)).unwrap();
    assert_eq!(revisions(&world), before, "a restart writes nothing");
    assert_eq!(deployment(&world).spec.replicas, Some(3), "what others set is no drift");

    let drift = json!([{"name": "a", "image": "i:2"}]);
    patch_by_another(&mut world, json!({"spec": {"template": {"spec": {"containers": drift}}}}));
    world.run_for(seconds(60)).unwrap();
    assert_eq!(env_values(&world), ["1", "2"], "drift is corrected");

    assert_eq!(apply(&mut world, &["3", "2", "1"]), ["3", "2", "1"]);
    assert_eq!(deployment(&world).metadata.labels.unwrap()["of"], "others");
    assert_eq!(apply(&mut world, &["4"]), ["4"]);
    let before = revisions(&world);
    world.restart_agent("cluster1");
    world.run_for(seconds(1)).unwrap();
    assert_eq!(revisions(&world), before, "after the fallback, too");
}
