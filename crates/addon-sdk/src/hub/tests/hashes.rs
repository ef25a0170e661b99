use super::*;
use crate::hub::tests::{Demo, NOW, World, config, reference, status};
use engine::addon::spec_hash::spec_hash;
use serde_json::json;

#[test]
fn the_hashes_of_the_configurations_are_told_in_every_place() {
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
fn nothing_is_told_of_another_addon_or_of_a_configuration_that_does_not_exist() {
    let mut world = World::new(&[]);
    let mut other = reference("kept");
    other["desiredConfig"]["name"] = json!("other");
    world.definition["status"] = json!({"defaultconfigReferences": [other]});
    assert!(HashController::<Demo>::plan(&Key::cluster("a"), &world.caches(), NOW).unwrap().is_empty());
    world.definition["status"] = json!({"defaultconfigReferences": [reference("old")]});
    assert!(HashController::<Demo>::plan(&Key::cluster("b"), &world.caches(), NOW).unwrap().is_empty());
}
