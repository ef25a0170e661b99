use super::*;
use serde_json::json;

const MANAGER: &str = "gitops";

fn object(api_version: &str, kind: &str, fields: Value) -> Object {
    let mut object = Object::from_value(fields).unwrap();
    object.0.insert("apiVersion".into(), api_version.into());
    object.0.insert("kind".into(), kind.into());
    object
}

/// Checks the first difference between a live object and the desired one.
fn check(api_version: &str, kind: &str, live: Value, desired: Value, difference: Option<&str>) {
    let (live, desired) = (object(api_version, kind, live), object(api_version, kind, desired));
    assert_eq!(first_difference(&live, &desired).as_deref(), difference, "{desired:?} on {live:?}");
}

#[test]
fn an_object_covers_what_it_has_all_values_of() {
    let container = json!({"name": "a", "image": "i:1", "imagePullPolicy": "Always"});
    let live = json!({"metadata": {"labels": {"a": "b", "c": "d"}}, "status": {}, "spec": {"replicas": 1,
        "template": {"spec": {"containers": [{"name": "injected"}, container]}}}});
    let containers = |image: &str| json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "image": image}]}}}});
    let check = |desired, difference| check("apps/v1", "Deployment", live.clone(), desired, difference);
    check(containers("i:1"), None);
    check(containers("i:2"), Some("spec.template.spec.containers"));
    check(json!({"spec": {"replicas": 2}}), Some("spec.replicas"));
    check(json!({"spec": {"paused": true}}), Some("spec.paused"));
    check(json!({"spec": {"selector": {}, "args": [], "x": null}}), None);
    check(json!({"metadata": {"labels": {"a": "b"}, "creationTimestamp": null}}), None);
    check(json!({"metadata": {"labels": {"a": "x"}}}), Some("metadata.labels.a"));
}

#[test]
fn a_duplicate_entry_is_found_by_the_keys_of_its_list() {
    let check = |kind: &str, spec: Value, twice: bool| {
        let object = object("v1", kind, json!({"spec": spec}));
        assert_eq!(has_entry_twice(&object), twice, "{object:?}");
    };
    let pod = |container: Value| json!({"containers": [{"name": "a"}, container]});
    let env = |names: &[&str]| {
        pod(json!({"name": "b", "env": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()}))
    };
    check("Pod", env(&["X", "Y"]), false);
    check("Pod", env(&["X", "Y", "X"]), true);
    check("Pod", pod(json!({"name": "a"})), true);
    check("Pod", pod(json!({"name": "b", "args": ["x", "x"]})), false);
    // The protocol is part of the key, and has a default.
    let ports = |protocols: [Value; 2]| json!({"ports": protocols.map(|protocol| json!({"port": 53, "protocol": protocol}))});
    check("Service", ports([json!("TCP"), json!("UDP")]), false);
    check("Service", ports([json!(null), json!("UDP")]), false);
    check("Service", ports([json!(null), json!("TCP")]), true);
    check("Custom", env(&["X", "X"]), false);
}

/// `name`, `uid`, `mountPath`, `containerPort` and `type` are keys of some lists and ordinary fields in
/// others.
#[test]
fn items_of_lists_are_identified_by_the_keys_of_the_list() {
    let ports = |ports: Value| json!({"spec": {"ports": ports}});
    let (http, renamed) = (json!({"name": "http", "port": 80}), json!({"name": "web", "port": 80}));
    // Ports of a Service are identified by port and protocol, not by name.
    let live = ports(json!([{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 80}]));
    check("v1", "Service", live.clone(), ports(json!([http])), None);
    check("v1", "Service", live.clone(), ports(json!([renamed])), Some("spec.ports"));
    check(
        "v1",
        "Service",
        live,
        ports(json!([{"name": "http", "port": 80, "protocol": "UDP"}])),
        Some("spec.ports"),
    );
    // Subjects of a binding are an atomic list, although every item has a name.
    let subjects = |names: &[&str]| json!({"subjects": names.iter().map(|name| json!({"kind": "User", "name": name})).collect::<Vec<_>>()});
    let binding = |live: &[&str], desired: &[&str], difference| {
        check("rbac.authorization.k8s.io/v1", "RoleBinding", subjects(live), subjects(desired), difference);
    };
    binding(&["ann"], &["ann"], None);
    binding(&["ann", "mallory"], &["ann"], Some("subjects"));
    binding(&["bob", "ann"], &["ann", "bob"], Some("subjects[0].name"));
    // Mounts of a container are identified by path, not by name.
    let pod = |container: Value| json!({"spec": {"containers": [container]}});
    let two_mounts = json!({"name": "a", "volumeMounts": [
        {"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}]});
    check("v1", "Pod", pod(two_mounts.clone()), pod(two_mounts.clone()), None);
    let other_path = json!({"name": "a", "volumeMounts": [{"name": "v", "mountPath": "/c"}]});
    check("v1", "Pod", pod(two_mounts), pod(other_path), Some("spec.containers"));
}

#[test]
fn an_atomic_map_has_only_the_wanted_values() {
    let selector = |labels: Value| json!({"spec": {"selector": labels}});
    check(
        "v1",
        "Service",
        selector(json!({"a": "b", "c": "d"})),
        selector(json!({"a": "b"})),
        Some("spec.selector"),
    );
    let labels = |labels: Value| selector(json!({"matchLabels": labels}));
    let (more, one) = (labels(json!({"a": "b", "c": "d"})), labels(json!({"a": "b"})));
    check("apps/v1", "Deployment", more, one, Some("spec.selector.matchLabels"));
    let env = |field: Value| json!({"spec": {"containers": [{"name": "a", "env": [{"name": "E", "valueFrom": {"fieldRef": field}}]}]}});
    let defaulted = env(json!({"apiVersion": "v1", "fieldPath": "spec.nodeName"}));
    check("v1", "Pod", defaulted, env(json!({"fieldPath": "spec.nodeName"})), None);
}

#[test]
fn metadata_has_the_same_rules_in_every_kind() {
    let metadata = |finalizers: &[&str], uids: &[&str]| {
        let owners: Vec<_> = uids.iter().map(|uid| json!({"uid": uid, "name": "same"})).collect();
        json!({"metadata": {"finalizers": finalizers, "ownerReferences": owners}})
    };
    let check = |live, desired, difference| check("x.io/v1", "Custom", live, desired, difference);
    check(metadata(&["x/a", "x/b"], &["1", "2"]), metadata(&["x/b"], &["2"]), None);
    check(metadata(&["x/a"], &["1"]), metadata(&["x/b"], &[]), Some("metadata.finalizers"));
    check(metadata(&[], &["1"]), metadata(&[], &["3"]), Some("metadata.ownerReferences"));
}

/// Returns `desired` as the API server would store it, after an apply and changes by others.
fn applied(desired: &Object, at: Position<'_>, changes: impl FnOnce(&mut Value)) -> Object {
    use super::super::{Applying, Manager, Operation};
    let manager = |operation, name: &str| Manager {
        operation,
        name: name.into(),
        api_version: desired.api_version().into(),
        subresource: String::new(),
    };
    let config = Value::Object(desired.0.clone());
    let us = manager(Operation::Apply, MANAGER);
    let (zero, config) = (json!({}), &config);
    let applying = Applying { zero: &zero, live: &zero, config, named: config, force: false };
    let (value, owners) = Owners::default().applied(&us, applying, at, "").unwrap();
    let mut after = value.clone();
    changes(&mut after);
    let owners = owners.updated(&manager(Operation::Update, "other"), (&value, &after), at, "");
    let mut live = Object::from_value(after).unwrap();
    live.metadata_mut().insert("managedFields".into(), owners.to_values().into());
    live
}

#[test]
fn managed_fields_decide_what_values_cannot() {
    let desired = object(
        "apps/v1",
        "Deployment",
        json!({"metadata": {"name": "d", "labels": {"a": "b"}},
        "spec": {"replicas": 2, "template": {"spec": {"containers": [{"name": "a", "image": "i",
            "resources": {"limits": {"cpu": "1000m"}}, "ports": [{"containerPort": 80}]}]}}}}),
    );
    let at = BUILTIN.root("apps/v1", "Deployment");
    let check = |change: &dyn Fn(&mut Value), expected: bool, claim: &str| {
        assert_eq!(is_as_applied(&applied(&desired, at, change), &desired, MANAGER), expected, "{claim}");
    };
    check(&|_| {}, true, "an untouched object is as applied");
    check(&|live| live["spec"]["replicas"] = 3.into(), false, "another value");
    check(&|live| live["spec"]["paused"] = true.into(), true, "a field of another manager");
    check(&|live| live["metadata"]["labels"] = json!({}), false, "a label that went");
    let container = |live: &mut Value| live["spec"]["template"]["spec"]["containers"][0].take();
    let injected = |live: &mut Value| {
        let ours = container(live);
        live["spec"]["template"]["spec"]["containers"] = json!([{"name": "injected"}, ours]);
    };
    check(&injected, true, "a container of another manager");
    let mut live = applied(&desired, at, |_| {});
    live.0["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "1".into();
    assert!(
        !covers(&live, &desired) && is_as_applied(&live, &desired, MANAGER),
        "the server writes quantities its way"
    );
    assert_eq!(is_as_applied(&live, &desired, "somebody-else"), covers(&live, &desired));
}

#[test]
fn managed_fields_reveal_the_lists_of_custom_kinds() {
    let schema = json!({"properties": {"spec": {"properties": {
        "taints": {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"], "items": {"properties": {}}},
        "tags": {"x-kubernetes-list-type": "set"}, "steps": {}}}}});
    let desired = object(
        "x.io/v1",
        "Custom",
        json!({"metadata": {"name": "c"},
        "spec": {"taints": [{"key": "k", "name": "n"}], "tags": ["t"], "steps": [{"name": "s"}]}}),
    );
    let check = |change: &dyn Fn(&mut Value), expected: bool| {
        let live = applied(&desired, Position::schema(&schema), change);
        assert_eq!(is_as_applied(&live, &desired, MANAGER), expected, "{live:?}");
    };
    check(&|live| live["spec"]["taints"].as_array_mut().unwrap().insert(0, json!({"key": "other"})), true);
    check(&|live| live["spec"]["tags"].as_array_mut().unwrap().push("u".into()), true);
    check(&|live| live["spec"]["steps"].as_array_mut().unwrap().push(json!({"name": "t"})), false);
    check(&|live| live["spec"]["taints"][0]["name"] = "m".into(), false);
}
