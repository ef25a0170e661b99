//! Objects applied by `kubectl apply` or Argo CD get another owner while the processes crash.

use super::*;
use crate::fixtures::merged;
use api::gitops::v1alpha1::ConfigRepo;
use store::{Patch, ResourcePath, WriteOptions};

const ARGO_CD: &str = "argocd-controller";
const INSTANCE: &str = "app.kubernetes.io/instance";

pub(super) fn map(name: &str, data: &str) -> Value {
    let metadata = json!({"name": name, "namespace": "config"});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": data}})
}

pub(super) fn map_id(name: &str) -> Id {
    (String::new(), format!("ConfigMap config/{name}"))
}

/// Creates or updates the ConfigRepo with these fields.
pub(super) fn repository(world: &mut World, spec: Value) {
    config_repo(world, &repo(), merged(json!({"url": "https://git.example/fleet"}), spec));
}

/// Creates a ConfigMap as another client, with that client's metadata and a field that the repository does not
/// have.
fn create_as(world: &mut World, manager: &str, name: &str, metadata: Value) {
    let others = merged(json!({"data": {"more": "1"}}), json!({"metadata": metadata}));
    let object = Object::from_value(merged(map(name, "1"), others)).unwrap();
    let maps = ResourcePath::resource("", "v1", "configmaps").within("config");
    world.hub.create(&maps, object, &WriteOptions::manager(manager), world.now).unwrap();
}

/// Returns the metadata of an object tracked by the application `shop`.
fn tracked(name: &str) -> Value {
    json!({"annotations": {"argocd.argoproj.io/tracking-id": format!("shop:/ConfigMap:config/{name}")}})
}

fn keeps_all_maps(ended: &Ended) -> bool {
    let is_map = |(_, id): &Id| id.starts_with("ConfigMap ");
    let of_maps = ended.contents.iter().filter(|(id, _)| is_map(id));
    of_maps.flat_map(|(_, contents)| contents).all(|content| !content.is_null())
}

/// Creates objects with client-side and server-side `kubectl apply`.
fn kubectl(world: &mut World) {
    repository(world, json!({"takeover": "Always"}));
    let last = json!({"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}});
    create_as(world, "kubectl-client-side-apply", "a", last);
    let on_server = merged(map("b", "1"), json!({"data": {"more": "1"}}));
    world.apply_as("kubectl", Object::from_value(on_server).unwrap()).unwrap();
}

#[test]
fn a_takeover_from_kubectl_survives_a_crash_at_every_write() {
    let act = |world: &mut World| commit(world, 1, tree(&[map("a", "2"), map("b", "2")]));
    let ended = check(&Scenario { prepare: kubectl, act });
    assert!(keeps_all_maps(&ended), "{:?}", ended.contents);
    for name in ["a", "b"] {
        assert_eq!(ended.objects[&map_id(name)]["data"], json!({"k": "2"}), "a field of kubectl is left");
    }
}

/// Makes a ConfigRepo observe the objects of an application, which tracks one by annotation and one by label.
fn observed(world: &mut World) {
    repository(world, json!({"mode": "Observe"}));
    create_as(world, ARGO_CD, "a", tracked("a"));
    create_as(world, ARGO_CD, "b", json!({"labels": {INSTANCE: "shop"}}));
    commit(world, 1, tree(&[map("a", "2"), map("b", "2")]));
}

#[test]
fn a_takeover_from_argo_cd_survives_a_crash_at_every_write() {
    let act = |world: &mut World| repository(world, json!({"takeover": "Always"}));
    let ended = check(&Scenario { prepare: observed, act });
    assert!(keeps_all_maps(&ended), "{:?}", ended.contents);
    for name in ["a", "b"] {
        let map = &ended.objects[&map_id(name)];
        assert_eq!(map["data"], json!({"k": "2", "more": "1"}), "Argo CD keeps what the repository lacks");
        let text = map["metadata"].to_string();
        assert!(!text.contains("tracking-id") && !text.contains(INSTANCE), "it is still tracked: {text}");
    }
}

/// Applies two objects of a ConfigRepo that deletes its objects when it is deleted.
fn applied(world: &mut World) {
    repository(world, json!({"deletionPolicy": "Delete"}));
    commit(world, 1, tree(&[map("a", "1"), map("b", "1")]));
}

/// Leaves both objects to an application that has applied one of them. The other one is missing from the
/// repository.
fn leave(world: &mut World) {
    repository(world, json!({"deletionPolicy": "Delete", "mode": "Observe"}));
    let path = ResourcePath::resource("", "v1", "configmaps").at(&Key::namespaced("config", "a"));
    let mark = Patch::Merge(json!({"metadata": tracked("a")}));
    world.hub.patch(&path, &mark, &WriteOptions::manager(ARGO_CD), world.now).unwrap();
    commit(world, 2, tree(&[map("a", "1")]));
}

#[test]
fn a_repository_that_goes_back_to_argo_cd_survives_a_crash_at_every_write_without_a_deletion() {
    let ended = check(&Scenario { prepare: applied, act: leave });
    for name in ["a", "b"] {
        assert_eq!(ended.objects[&map_id(name)]["data"], json!({"k": "1"}));
    }
    let annotations = |name: &str| ended.objects[&map_id(name)]["metadata"]["annotations"].to_string();
    assert!(!annotations("a").contains("wheelwright"), "it is marked: {}", annotations("a"));
    assert!(annotations("b").contains("wheelwright"), "no application tracks it: {}", annotations("b"));
    assert!(keeps_all_maps(&ended), "{:?}", ended.contents);
}

#[test]
fn the_end_of_a_repository_that_observes_survives_a_crash_at_every_write_without_a_deletion() {
    let prepare = |world: &mut World| {
        applied(world);
        world.run_for(seconds(10)).unwrap();
        leave(world);
    };
    let act = |world: &mut World| world.delete::<ConfigRepo>(&repo()).unwrap();
    let ended = check(&Scenario { prepare, act });
    assert!(!ended.objects.keys().any(|(_, id)| id.starts_with("ConfigRepo")), "{:?}", ended.objects);
    for name in ["a", "b"] {
        assert_eq!(ended.objects[&map_id(name)]["data"], json!({"k": "1"}));
    }
    assert!(keeps_all_maps(&ended), "{:?}", ended.contents);
}
