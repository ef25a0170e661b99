use serde_json::{Value, json};

use super::decide::{applied, decided};
use crate::work::ApplyDecision;

/// Returns a Deployment with one container.
fn deployment(metadata: Value, container: Value, more: Value) -> Value {
    let mut whole = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n"},
        "spec": {"template": {"spec": {"containers": [container]}}}});
    for (field, value) in [("metadata", metadata), ("spec", more)] {
        whole[field].as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
    }
    whole
}

/// Returns a container with these values of the variable `X`.
fn container(values: &[&str]) -> Value {
    let env: Vec<Value> = values.iter().map(|value| json!({"name": "X", "value": value})).collect();
    json!({"name": "a", "image": "i:1", "env": env, "resources": {"limits": {"cpu": "1000m"}}})
}

/// Returns the container as stored by the API server, after a webhook has added a variable.
fn stored(values: &[&str]) -> Value {
    let mut stored = container(values);
    stored["resources"]["limits"]["cpu"] = "1".into();
    stored["imagePullPolicy"] = "IfNotPresent".into();
    stored["env"].as_array_mut().unwrap().push(json!({"name": "INJECTED", "value": "1"}));
    stored
}

fn update() -> Value {
    json!({"type": "Update"})
}

fn patched(decision: ApplyDecision) -> Value {
    match decision {
        ApplyDecision::Patch(patch) => patch.into(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_object_with_an_entry_twice_is_created_with_its_owner() {
    let manifest = deployment(json!({"labels": {"gone-": ""}}), container(&["1", "2"]), json!({}));
    let ApplyDecision::Create(created) = decided(update(), manifest, None, false) else {
        panic!("it is created")
    };
    assert_eq!(created.0["metadata"]["ownerReferences"][0]["uid"], "u");
    assert_eq!(created.0["metadata"]["labels"], json!({}));
    assert_eq!(created.0["spec"]["template"]["spec"]["containers"][0], container(&["1", "2"]));
}

#[test]
fn an_object_that_has_all_values_of_its_manifest_is_left_alone() {
    let manifest = deployment(json!({"labels": {"a": "b"}}), container(&["1", "2"]), json!({"paused": true}));
    let live = |replicas: u32, paused: bool, values: &[&str]| {
        let metadata = json!({"labels": {"a": "b", "other": "x"}});
        Some(deployment(metadata, stored(values), json!({"replicas": replicas, "paused": paused})))
    };
    for replicas in [1, 7] {
        let decision = decided(update(), manifest.clone(), live(replicas, true, &["1", "2"]), true);
        assert_eq!(decision, ApplyDecision::Leave);
    }
    let drifted = patched(decided(update(), manifest.clone(), live(1, false, &["1", "2"]), true));
    assert_eq!(drifted["spec"]["paused"], true);
    let drifted = patched(decided(update(), manifest, live(1, true, &["1", "3"]), true));
    assert_eq!(drifted["spec"]["template"]["spec"]["containers"], json!([container(&["1", "2"])]));
}

#[test]
fn another_manifest_replaces_the_content_and_keeps_the_metadata_of_others() {
    let manifest = deployment(
        json!({"labels": {"a": "new", "gone-": ""}, "finalizers": ["x/y"]}),
        container(&["1", "2"]),
        json!({}),
    );
    let metadata =
        json!({"labels": {"a": "b", "other": "x"}, "annotations": {"of": "others"}, "finalizers": ["a/b"]});
    let mut live = deployment(metadata, container(&["1", "2"]), json!({"minReadySeconds": 5}));
    live["status"] = json!({"replicas": 1});
    let patch = patched(decided(update(), manifest.clone(), Some(live.clone()), false));
    assert_eq!(patch, json!({"metadata": {"labels": {"a": "new"}}, "spec": {"minReadySeconds": null}}));
    live["metadata"]["labels"]["a"] = "new".into();
    live["spec"].as_object_mut().unwrap().remove("minReadySeconds");
    assert_eq!(decided(update(), manifest, Some(live), false), ApplyDecision::Leave, "the server has it all");
}

#[test]
fn a_duplicate_entry_leaves_with_its_manifest() {
    let manifest = deployment(json!({}), container(&["2"]), json!({}));
    let live = |values: &[&str]| Some(deployment(json!({}), container(values), json!({})));
    let patch = patched(decided(update(), manifest.clone(), live(&["1", "2"]), false));
    assert_eq!(patch["spec"]["template"]["spec"]["containers"], json!([container(&["2"])]));
    let (object, ..) = applied(decided(update(), manifest.clone(), live(&["2"]), false));
    assert_eq!(object["spec"], manifest["spec"]);
    assert_eq!(decided(update(), manifest, live(&["2"]), true), ApplyDecision::Leave);
}

#[test]
fn the_content_of_a_pod_stays_as_it_was_created() {
    let pod = |metadata: Value, values: &[&str]| {
        let mut pod = deployment(metadata, json!({}), json!({}));
        (pod["apiVersion"], pod["kind"]) = ("v1".into(), "Pod".into());
        pod["spec"] = json!({"containers": [container(values)]});
        pod
    };
    let manifest = pod(json!({"labels": {"a": "b"}}), &["1", "2"]);
    let live = pod(json!({"labels": {"other": "x"}}), &["7", "7"]);
    let decision = decided(update(), manifest.clone(), Some(live), false);
    assert_eq!(patched(decision), json!({"metadata": {"labels": {"a": "b"}}}));
    let live = pod(json!({"labels": {"a": "b", "other": "x"}}), &["7", "7"]);
    assert_eq!(decided(update(), manifest, Some(live), false), ApplyDecision::Leave);
}

#[test]
fn an_empty_metadata_field_removes_nothing_that_others_set() {
    let live = deployment(
        json!({"labels": {"a": "b", "other": "x"}, "annotations": {"of": "others"}}),
        container(&["1", "2"]),
        json!({}),
    );
    for metadata in [json!({"labels": null}), json!({"annotations": null}), json!({"labels": {"a": null}})] {
        let manifest = deployment(metadata, container(&["1", "2"]), json!({}));
        for was_applied in [true, false] {
            let decision = decided(update(), manifest.clone(), Some(live.clone()), was_applied);
            assert_eq!(decision, ApplyDecision::Leave, "{manifest}");
        }
    }
}

#[test]
fn the_order_of_duplicate_entries_counts() {
    let manifest = deployment(json!({}), container(&["1", "2"]), json!({}));
    for (values, is_drift) in [
        (["1", "2"].as_slice(), false),
        (&["2", "1"], true),
        (&["1", "2", "3"], true),
        (&["1"], true),
        (&["2"], true),
    ] {
        let live = deployment(json!({}), container(values), json!({}));
        let decision = decided(update(), manifest.clone(), Some(live), true);
        assert_eq!(decision != ApplyDecision::Leave, is_drift, "{values:?}: {decision:?}");
    }
}

#[test]
fn only_quantities_are_compared_by_their_amount() {
    let manifest = deployment(json!({}), container(&["1000m", "2"]), json!({}));
    let live = |values: &[&str], cpu: &str| {
        let mut container = container(values);
        container["resources"]["limits"]["cpu"] = cpu.into();
        Some(deployment(json!({}), container, json!({})))
    };
    assert_eq!(decided(update(), manifest.clone(), live(&["1000m", "2"], "1"), true), ApplyDecision::Leave);
    for live in [live(&["1", "2"], "1"), live(&["1000m", "2"], "2")] {
        assert_ne!(decided(update(), manifest.clone(), live, true), ApplyDecision::Leave);
    }
}

#[test]
fn quantities_are_compared_by_item_name_or_position() {
    let with = |claims: [&str; 2], first: Option<Value>, cpu: &str| {
        let claim = |size: &str| json!({"spec": {"resources": {"requests": {"storage": size}}}});
        let mut whole = deployment(json!({}), container(&["1", "2"]), json!({"claims": claims.map(claim)}));
        let containers = whole["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap();
        containers[0]["resources"]["limits"]["cpu"] = cpu.into();
        if let Some(first) = first {
            containers.insert(0, first);
        }
        whole
    };
    let manifest = with(["1024Mi", "2048Mi"], None, "1000m");
    let injected = json!({"name": "proxy", "image": "p:1", "resources": {"limits": {"cpu": "2"}}});
    let live = |claims| Some(with(claims, Some(injected.clone()), "1"));
    assert_eq!(decided(update(), manifest.clone(), live(["1Gi", "2Gi"]), true), ApplyDecision::Leave);
    assert_ne!(decided(update(), manifest, live(["1Gi", "1Gi"]), true), ApplyDecision::Leave);
}

#[test]
fn the_content_of_another_object_of_the_core_group_is_replaced() {
    let map = |data: Value, metadata: Value| {
        let mut map = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "n"},
            "spec": {"ports": [{"port": 1, "name": "a"}, {"port": 1, "name": "b"}], "type": data}});
        map["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        map
    };
    let live = map(json!("ClusterIP"), json!({"labels": {"other": "x"}}));
    let patch = patched(decided(update(), map(json!("NodePort"), json!({})), Some(live), false));
    assert_eq!(patch["spec"]["type"], "NodePort");
}

#[test]
fn created_or_merged_fields_become_applied_so_that_an_apply_removes_them() {
    let entry_of = |manager: &str, operation: &str, fields: Value| {
        json!({"manager": manager, "operation": operation, "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
            "time": "2026-01-01T00:00:00Z", "fieldsV1": fields})
    };
    let entry = |operation: &str, fields: Value| entry_of("work-agent", operation, fields);
    let of_others = entry_of("hpa", "Update", json!({"f:spec": {"f:replicas": {}}}));
    let live = |entries: Value| {
        let paused = json!({"paused": true, "replicas": 3});
        let created = "2026-01-01T00:00:00Z";
        let metadata = json!({"creationTimestamp": created, "managedFields": entries});
        Some(deployment(metadata, container(&["1"]), paused))
    };
    let manifest = deployment(json!({}), container(&["1"]), json!({}));
    let merged = json!({"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:paused": {}}});
    let before = live(json!([entry("Update", merged.clone()), of_others]));
    // An object that matches the last manifest is not changed.
    assert_eq!(decided(update(), manifest.clone(), before.clone(), true), ApplyDecision::Leave);
    let patch = patched(decided(update(), manifest.clone(), before, false));
    assert_eq!(patch, json!({"metadata": {"managedFields": [entry("Apply", merged.clone()), of_others]}}));
    let after = live(patch["metadata"]["managedFields"].clone());
    applied(decided(update(), manifest.clone(), after, false));
    // An entry with only metadata comes from a patch of the owners.
    let owners = json!({"f:metadata": {"f:ownerReferences": {}}});
    applied(decided(update(), manifest.clone(), live(json!([entry("Update", owners)])), false));
    // `ServerSideApply` does not convert fields that were never applied.
    let strategy = json!({"type": "ServerSideApply", "serverSideApply": {"force": true}});
    applied(decided(strategy, manifest, live(json!([entry("Update", merged)])), false));
}

#[test]
fn only_an_update_of_a_kind_that_is_known_falls_back_to_a_merge() {
    let manifest = deployment(json!({}), container(&["1", "2"]), json!({}));
    let live = Some(deployment(json!({}), container(&["1"]), json!({})));
    for (strategy, kind) in [("ServerSideApply", "Deployment"), ("Update", "Custom")] {
        let mut manifest = manifest.clone();
        manifest["kind"] = kind.into();
        let decision = decided(json!({"type": strategy}), manifest, live.clone(), false);
        assert!(matches!(decision, ApplyDecision::Apply { .. }), "{strategy} {kind}: {decision:?}");
    }
    let mut service = manifest;
    (service["apiVersion"], service["kind"]) = ("v1".into(), "Service".into());
    service["spec"] =
        json!({"ports": [{"name": "tcp", "port": 53}, {"name": "udp", "port": 53, "protocol": "UDP"}]});
    let decision = decided(update(), service, live, false);
    assert!(matches!(decision, ApplyDecision::Apply { .. }), "one port with two protocols is two entries");
}
