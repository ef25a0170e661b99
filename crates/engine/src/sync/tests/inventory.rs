use serde_json::json;

use super::hub::{commit, config_map, object};
use crate::sync::{Inventory, ObjectId, digest_of_paths, kinds, owner, recorded, requested};
use api::gitops::v1alpha1::{ConfigRepo, ConfigRepoInventory};
use object::{Gvk, Key};

fn deployment() -> ObjectId {
    ObjectId { group: "apps".into(), kind: "Deployment".into(), key: Key::namespaced("ns", "web") }
}

#[test]
fn the_entry_of_a_status_names_the_object_and_its_version() {
    let entry = deployment().entry("v1");
    assert_eq!(
        json!(entry),
        json!({"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "ns", "name": "web"})
    );
    assert_eq!(ObjectId::from_entry(&entry), (deployment(), "v1".to_owned()));
}

#[test]
fn the_kinds_of_a_commit_and_of_an_inventory_are_read_once_each() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "ns"}});
    let wanted = commit(&[config_map("a", "1"), config_map("b", "1"), object(secret)]);
    let inventory = Inventory::from([(deployment(), "v1".to_owned())]);
    let expected = [("v1", "ConfigMap"), ("v1", "Secret"), ("apps/v1", "Deployment")];
    assert_eq!(kinds(&wanted.objects, &inventory), expected.map(|(version, kind)| Gvk::parse(version, kind)));
}

fn repo() -> ConfigRepo {
    let inventory = json!([deployment().entry("v1beta1")]);
    serde_json::from_value(json!({
        "metadata": {"name": "repo", "namespace": "ns", "uid": "u1"},
        "spec": {"url": "https://git.example/a"}, "status": {"inventory": inventory},
    }))
    .unwrap()
}

/// Returns an inventory with one object and one request, whose owner has this uid.
fn part(namespace: &str, kind: &str, uid: &str) -> ConfigRepoInventory {
    let references =
        json!([{"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": kind, "name": "repo", "uid": uid}]);
    serde_json::from_value(json!({
        "metadata": {"name": "repo-1", "namespace": namespace, "ownerReferences": references},
        "spec": {
            "objects": {"/ConfigMap/ns/a": "v1", "not a path": "v1", "a/b/c/d/e": "v1"},
            "requested": {"/Secret/ns/s": "v1"},
        },
    }))
    .unwrap()
}

#[test]
fn a_repository_owns_the_objects_in_its_inventories_and_status() {
    let own = part("ns", "ConfigRepo", "u1");
    let others =
        [part("ns", "ConfigRepo", "u2"), part("other", "ConfigRepo", "u1"), part("ns", "ConfigMap", "u1")];
    let names = |inventory: Inventory| -> Vec<String> {
        inventory.iter().map(|(id, version)| format!("{} {version}", id.path())).collect()
    };
    assert_eq!(
        names(recorded(&repo(), [&own])),
        ["/ConfigMap/ns/a v1", "/Secret/ns/s v1", "apps/Deployment/ns/web v1beta1"]
    );
    assert_eq!(names(requested(&repo(), [&own])), ["/Secret/ns/s v1"]);
    assert_eq!(names(recorded(&repo(), &others)), ["apps/Deployment/ns/web v1beta1"]);
    assert_eq!(names(requested(&repo(), &others)), [""; 0]);
    assert_eq!(owner(&own).map(|owner| owner.uid.as_str()), Some("u1"));
}

#[test]
fn the_digest_of_an_inventory_changes_with_any_of_its_paths() {
    let digest = |paths: &[&str]| {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        digest_of_paths(paths.iter())
    };
    assert_eq!(digest(&["a", "b"]), digest(&["a", "b"]));
    assert_ne!(digest(&["a", "b"]), digest(&["ab"]));
    assert_eq!(digest(&["a"]).len(), 16);
}
