use serde_json::{Value, json};

use super::{object, owner, served, work};
use crate::work::{ObjectRemoval, Served, inventory, read, removal};
use api::work::v1::AppliedResource;
use object::Object;

/// Parses an entry from `group/version/resource/namespace/name uid`.
fn entry(text: &str) -> AppliedResource {
    let (path, uid) = text.split_once(' ').unwrap_or((text, ""));
    let [group, version, resource, namespace, name] =
        path.split('/').map(str::to_owned).collect::<Vec<_>>().try_into().unwrap();
    AppliedResource {
        group,
        version,
        resource,
        namespace,
        name,
        uid: uid.into(),
        ..AppliedResource::default()
    }
}

fn manifest(api_version: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": "Thing", "metadata": {"name": name, "namespace": "n"}})
}

/// Checks the inventory after `before` of a work with these manifests, while the objects in `live` exist.
fn check(before: &[&str], manifests: &[Value], how: Served, live: &[(&str, &str)], want: &[&str]) {
    let before: Vec<_> = before.iter().map(|text| entry(text)).collect();
    let wanted = read(&work(json!({"workload": {"manifests": manifests}})), |_| how.clone());
    let objects: Vec<Object> = live
        .iter()
        .map(|(name, uid)| object(json!({"kind": "Thing", "metadata": {"name": name, "uid": uid}})))
        .collect();
    let found = inventory(&before, &wanted, |reference| {
        objects.iter().find(|object| object.name() == reference.key.name)
    });
    assert_eq!(found, want.iter().map(|text| entry(text)).collect::<Vec<_>>());
}

#[test]
fn an_object_is_listed_before_it_is_created_and_its_uid_stays_after_its_deletion() {
    let one = || [manifest("x/v1", "a")];
    check(&[], &one(), served("things"), &[], &["x/v1/things/n/a"]);
    check(&["x/v1/things/n/a"], &one(), served("things"), &[("a", "1")], &["x/v1/things/n/a 1"]);
    check(&["x/v1/things/n/a 1"], &one(), served("things"), &[("a", "2")], &["x/v1/things/n/a 2"]);
    check(&["x/v1/things/n/a 1"], &one(), served("things"), &[], &["x/v1/things/n/a 1"]);
}

#[test]
fn an_entry_stays_until_its_object_no_longer_exists() {
    let other = ["y/v1/things/n/a 2", "x/v1/others/n/a 3", "x/v1/things/m/a 4", "x/v1/things/n/b 5"];
    let sorted = [
        "x/v1/others/n/a 3",
        "x/v1/things/m/a 4",
        "x/v1/things/n/a",
        "x/v1/things/n/b 5",
        "y/v1/things/n/a 2",
    ];
    check(&other, &[manifest("x/v1", "a")], served("things"), &[], &sorted);
    check(&other[..1], &[], served("things"), &[], &other[..1]);
}

#[test]
fn an_object_is_listed_once_in_the_version_of_its_first_manifest() {
    check(
        &["x/v1beta1/things/n/a 1"],
        &[manifest("x/v1", "a")],
        served("things"),
        &[],
        &["x/v1/things/n/a 1"],
    );
    let twice = [manifest("x/v2", "a"), manifest("x/v1", "b"), manifest("x/v1", "a")];
    check(&[], &twice, served("things"), &[], &["x/v1/things/n/b", "x/v2/things/n/a"]);
}

#[test]
fn a_manifest_without_a_name_or_a_known_kind_lists_nothing_and_drops_nothing() {
    let before = ["x/v1/things/n/a 1"];
    check(&before, &[manifest("x/v1", "")], served("things"), &[], &before);
    for how in [Served::Not, Served::Unread] {
        check(&before, &[manifest("x/v1", "a"), manifest("x/v1", "b")], how, &[], &before);
    }
}

#[test]
fn only_objects_with_the_recorded_uid_are_deleted_and_orphans_are_released() {
    let check = |owners: Value, is_terminating: bool, stays: bool, want: ObjectRemoval| {
        let mut metadata = json!({"name": "a", "ownerReferences": owners});
        if is_terminating {
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        let live = object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}));
        assert_eq!(removal(Some(&live), &owner(), stays), want, "{owners} {is_terminating} {stays}");
    };
    let (ours, mut namesake) = (json!(owner()), json!(owner()));
    namesake["uid"] = "another work, or the one before".into();
    let child = json!({"uid": "r", "kind": "ReplicaSet"});
    assert_eq!(removal(None, &owner(), false), ObjectRemoval::Forget);
    check(json!([]), false, false, ObjectRemoval::Forget);
    check(json!([namesake]), false, false, ObjectRemoval::Forget);
    check(json!([namesake]), false, true, ObjectRemoval::Forget);
    check(json!([ours]), false, false, ObjectRemoval::Delete);
    check(json!([ours, child]), false, false, ObjectRemoval::Delete);
    check(json!([ours]), true, false, ObjectRemoval::Wait);
    check(json!([ours, child]), false, true, ObjectRemoval::Release(vec![child]));
    check(json!([ours, namesake]), false, false, ObjectRemoval::Release(vec![namesake.clone()]));
    check(json!([ours, namesake]), true, false, ObjectRemoval::Release(vec![namesake]));
}
