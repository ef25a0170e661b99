use serde_json::json;

use super::hub::{commit, config_map, object};
use crate::sync::{Inventory, ObjectId, kinds};
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
