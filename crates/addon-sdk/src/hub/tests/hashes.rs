use super::*;
use crate::hub::tests::{Demo, NOW, World, config, reference, status};
use engine::addon::spec_hash::spec_hash;
use serde_json::json;

#[test]
fn the_hash_of_a_configuration_is_reported_everywhere_it_is_used() {
    let mut world = World::new(&[("TEXT", "hello")]);
    let progression = json!({"namespace": "ns", "name": "p", "configReferences": [reference("old")]});
    world.definition["status"] =
        json!({"defaultconfigReferences": [reference("")], "installProgressions": [progression]});
    let plan = HashController::<Demo>::plan(&Key::cluster("a"), &world.caches(), NOW).unwrap();
    let hash = spec_hash(&config(&world.variables));
    assert_eq!(status(&plan, "defaultconfigReferences")[0]["desiredConfig"]["specHash"], hash);
    let placements = status(&plan, "installProgressions");
    assert_eq!(placements[0]["configReferences"][0]["desiredConfig"]["specHash"], hash);
}

#[test]
fn other_addons_and_missing_configurations_are_not_reported() {
    let mut world = World::new(&[]);
    let mut other = reference("kept");
    other["desiredConfig"]["name"] = json!("other");
    world.definition["status"] = json!({"defaultconfigReferences": [other]});
    assert!(HashController::<Demo>::plan(&Key::cluster("a"), &world.caches(), NOW).unwrap().is_empty());
    world.definition["status"] = json!({"defaultconfigReferences": [reference("old")]});
    assert!(HashController::<Demo>::plan(&Key::cluster("b"), &world.caches(), NOW).unwrap().is_empty());
}

#[test]
fn the_hash_of_a_configuration_for_one_cluster_is_reported() {
    let mut world = World::new(&[("TEXT", "hello")]);
    let key = Key::namespaced("c1", "a");
    let plan = |world: &World| OwnHashController::<Demo>::plan(&key, &world.caches(), NOW).unwrap();
    world.addon["status"]["configReferences"] = json!([reference("")]);
    assert!(plan(&world).is_empty(), "a configuration of the placement is assigned by the hub");
    let group = "addon.open-cluster-management.io";
    let own =
        json!({"group": group, "resource": "addondeploymentconfigs", "namespace": "ns", "name": "config"});
    world.addon["spec"]["configs"] = json!([own]);
    let references = status(&plan(&world), "configReferences");
    assert_eq!(references[0]["desiredConfig"]["specHash"], spec_hash(&config(&world.variables)));
    world.addon["status"]["configReferences"] = references;
    assert!(plan(&world).is_empty(), "it is told once");
    world.variables = serde_json::Value::Null;
    assert!(plan(&world).is_empty(), "the hash of one that is gone stays");
}
