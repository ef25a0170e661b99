use serde_json::json;

use super::*;
use crate::hub::tests::memory_hub::MemoryHub;
use crate::hub::tests::work::{advance_a_second, hub_with};
use object::ObjectRef;
use reconcile::{Caches, Lookup, LookupAnswer, Register as _, Site};

const CLUSTER: &str = "cluster.open-cluster-management.io";

fn condition(type_: &str, status: &str) -> Value {
    let since = "2026-01-01T00:00:00Z";
    json!({"type": type_, "status": status, "reason": "R", "message": "m", "lastTransitionTime": since})
}

fn cluster(name: &str, set: &str) -> Value {
    let labels = json!({"cluster.open-cluster-management.io/clusterset": set});
    let conditions =
        [condition("ManagedClusterConditionAvailable", "Unknown"), condition("ManagedClusterJoined", "True")];
    json!({
        "apiVersion": format!("{CLUSTER}/v1"), "kind": "ManagedCluster",
        "metadata": {"name": name, "uid": name, "labels": labels}, "spec": {"hubAcceptsClient": true},
        "status": {
            "conditions": conditions, "version": {"kubernetes": "v1.34.1"},
            "clusterClaims": [{"name": "id.k8s.io", "value": "a"}],
        },
    })
}

fn set(name: &str, selector: Value) -> Value {
    json!({
        "apiVersion": format!("{CLUSTER}/v1beta2"), "kind": "ManagedClusterSet",
        "metadata": {"name": name, "uid": name}, "spec": {"clusterSelector": selector},
    })
}

fn binding(namespace: &str, set: &str, bound: &str) -> Value {
    json!({
        "apiVersion": format!("{CLUSTER}/v1beta2"), "kind": "ManagedClusterSetBinding",
        "metadata": {"namespace": namespace, "name": set, "uid": namespace}, "spec": {"clusterSet": set},
        "status": {"conditions": [condition("Bound", bound)]},
    })
}

/// Returns the clusters `c1` of the set `team` and `c2` of `other`, with bindings to `team` and to the set of all
/// clusters.
fn fleet() -> Vec<Value> {
    vec![
        cluster("c1", "team"),
        cluster("c2", "other"),
        set("team", json!({"selectorType": "ExclusiveClusterSetLabel"})),
        set("global", json!({"selectorType": "LabelSelector", "labelSelector": {}})),
        binding("apps", "team", "True"),
        binding("all", "global", "True"),
        binding("unbound", "team", "False"),
    ]
}

/// Returns a hub after all plans have settled.
fn hub(objects: Vec<Value>) -> MemoryHub {
    let mut hub = hub_with(|dispatcher| dispatcher.add::<ClusterProfileController>(), objects);
    settle(&mut hub);
    hub
}

fn settle(hub: &mut MemoryHub) {
    while !advance_a_second(hub).plans.is_empty() {}
}

/// Returns the keys of the profiles of a hub.
fn profiles(hub: &MemoryHub) -> Vec<String> {
    let profiles = hub.objects.keys().filter(|(kind, _)| kind == "ClusterProfile");
    profiles.map(|(_, key)| key.to_string()).collect()
}

fn profile(hub: &MemoryHub, namespace: &str, name: &str) -> Value {
    let key = ("ClusterProfile".to_owned(), Key::namespaced(namespace, name));
    hub.objects[&key].clone().into_value()
}

#[test]
fn a_namespace_has_a_profile_of_each_cluster_of_its_bound_sets() {
    let hub = hub(fleet());
    assert_eq!(profiles(&hub), ["all/c1", "all/c2", "apps/c1"]);
    let profile = profile(&hub, "apps", "c1");
    let labels = json!({
        "x-k8s.io/cluster-manager": "open-cluster-management",
        "open-cluster-management.io/cluster-name": "c1",
        "multicluster.x-k8s.io/clusterset": "team",
    });
    assert_eq!(profile["metadata"]["labels"], labels);
    let spec = json!({"displayName": "c1", "clusterManager": {"name": "open-cluster-management"}});
    assert_eq!(profile["spec"], spec);
    let status = &profile["status"];
    assert_eq!(status["version"], json!({"kubernetes": "v1.34.1"}));
    assert_eq!(status["properties"], json!([{"name": "id.k8s.io", "value": "a"}]));
    let conditions = status["conditions"].as_array().unwrap().iter();
    let conditions: Vec<_> = conditions.map(|one| [&one["type"], &one["status"], &one["reason"]]).collect();
    assert_eq!(json!(conditions), json!([["ControlPlaneHealthy", "Unknown", "R"], ["Joined", "True", "R"]]));
}

#[test]
fn profiles_follow_clusters_sets_and_bindings() {
    let mut hub = hub(fleet());
    let mut after = |kind: &str, key: Key, patch: Value| {
        hub.patch(kind, &key, &patch);
        settle(&mut hub);
        profiles(&hub)
    };
    let moved = json!({"metadata": {"labels": {"cluster.open-cluster-management.io/clusterset": "team"}}});
    let keys = after("ManagedCluster", Key::cluster("c2"), moved);
    assert_eq!(keys, ["all/c1", "all/c2", "apps/c1", "apps/c2"]);

    let left = json!({"metadata": {"labels": {"cluster.open-cluster-management.io/clusterset": null}}});
    assert_eq!(after("ManagedCluster", Key::cluster("c1"), left), ["all/c1", "all/c2", "apps/c2"]);
    let key = Key::namespaced("all", "global");
    let unbound = json!({"status": {"conditions": [condition("Bound", "False")]}});
    assert_eq!(after("ManagedClusterSetBinding", key.clone(), unbound), ["apps/c2"]);
    let bound = json!({"status": {"conditions": [condition("Bound", "True")]}});
    assert_eq!(after("ManagedClusterSetBinding", key, bound), ["all/c1", "all/c2", "apps/c2"]);

    let none = json!({"spec": {"clusterSelector": {"labelSelector": {"matchLabels": {"a": "b"}}}}});
    assert_eq!(after("ManagedClusterSet", Key::cluster("global"), none), ["apps/c2"]);
    let all = json!({"spec": {"clusterSelector": {"labelSelector": {"matchLabels": null}}}});
    assert_eq!(after("ManagedClusterSet", Key::cluster("global"), all), ["all/c1", "all/c2", "apps/c2"]);

    let leaves = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    assert_eq!(after("ManagedCluster", Key::cluster("c2"), leaves), ["all/c1"]);
    let labels = profile(&hub, "all", "c1")["metadata"]["labels"].clone();
    assert_eq!(labels.get("multicluster.x-k8s.io/clusterset"), None, "{labels}");
    hub.delete("ManagedCluster", &Key::cluster("c1"));
    settle(&mut hub);
    assert_eq!(profiles(&hub), [""; 0]);
}

#[test]
fn an_unknown_set_neither_adds_nor_removes_profiles() {
    let mut hub = hub(fleet());
    let malformed = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]});
    let malformed = json!({"spec": {"clusterSelector": {"labelSelector": malformed}}});
    hub.patch("ManagedClusterSet", &Key::cluster("global"), &malformed);
    hub.put(Object::from_value(cluster("c3", "other")).unwrap());
    settle(&mut hub);
    assert_eq!(profiles(&hub), ["all/c1", "all/c2", "apps/c1"]);
    hub.delete("ManagedClusterSet", &Key::cluster("global"));
    settle(&mut hub);
    assert_eq!(profiles(&hub), ["all/c1", "all/c2", "apps/c1"], "the binding does not say so yet");
}

#[test]
fn a_profile_of_another_cluster_manager_is_left_alone() {
    let theirs = json!({
        "apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile",
        "metadata": {"namespace": "apps", "name": "c1", "uid": "u"},
        "spec": {"displayName": "theirs", "clusterManager": {"name": "other"}},
    });
    let mut hub = hub([fleet(), vec![theirs]].concat());
    hub.delete("ManagedCluster", &Key::cluster("c1"));
    settle(&mut hub);
    assert_eq!(profile(&hub, "apps", "c1")["spec"]["displayName"], "theirs");
}

#[test]
fn a_cluster_that_only_the_list_lacks_keeps_its_profile() {
    let key = Key::namespaced("apps", "c1");
    let mut caches = Caches::default();
    let live = json!({
        "metadata": {"namespace": "apps", "name": "c1", "resourceVersion": "1"},
        "spec": {"clusterManager": {"name": "open-cluster-management"}},
    });
    caches.replace::<ClusterProfile>(Site::Hub, vec![serde_json::from_value(live).unwrap()], "1");
    caches.replace::<ManagedCluster>(Site::Hub, Vec::new(), "1");
    let plan = |caches: &Caches| ClusterProfileController::plan(&key, caches, Timestamp::UNIX_EPOCH);
    assert!(plan(&caches).is_err(), "the hub is asked");
    let lookup = Lookup::Object(ObjectRef::of::<ManagedCluster>(Key::cluster("c1")));
    let found = Object::from_value(cluster("c1", "team")).unwrap();
    caches.set_answer(lookup.clone(), Ok(LookupAnswer::Object(Some(Arc::new(found)))));
    assert!(plan(&caches).unwrap().is_empty());
    caches.set_answer(lookup, Ok(LookupAnswer::Object(None)));
    assert!(matches!(plan(&caches).unwrap().steps[0][0], Action::Delete { .. }));
}
