use serde_json::{Value, json};

use super::*;
use reconcile::{Caches, Site};

fn typed<K: object::Kind>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

fn set(name: &str, selector: Value, namespaces: &[&str]) -> ManagedClusterSet {
    let namespaces: Vec<_> = namespaces.iter().map(|name| json!({"name": name})).collect();
    typed(json!({"metadata": {"name": name, "resourceVersion": "1"},
        "spec": {"clusterSelector": selector, "managedNamespaces": namespaces}}))
}

/// Returns the new list of a cluster in the set `team` whose status has the list `held`.
fn list_for(sets: Vec<ManagedClusterSet>, reported: Value) -> Value {
    let mut caches = Caches::default();
    let labels = json!({"cluster.open-cluster-management.io/clusterset": "team"});
    let cluster = json!({"metadata": {"name": "c1", "resourceVersion": "1", "labels": labels}, "spec": {},
        "status": {"conditions": [], "managedNamespaces": reported}});
    caches.replace::<ManagedCluster>(Site::Hub, vec![typed(cluster)], "1");
    caches.replace::<ManagedClusterSet>(Site::Hub, sets, "1");
    let plan = ManagedNamespacesController::plan(&Key::cluster("c1"), &caches, Timestamp::UNIX_EPOCH);
    let plan = serde_json::to_value(plan.unwrap()).unwrap();
    plan["status"]["patch"]["status"]["managedNamespaces"].clone()
}

#[test]
fn a_cluster_gets_the_namespaces_of_all_its_sets_in_order_and_keeps_what_it_reported() {
    let exclusive = || json!({"selectorType": "ExclusiveClusterSetLabel"});
    let all = json!({"selectorType": "LabelSelector", "labelSelector": {}});
    let available = json!([{"type": "NamespaceAvailable", "status": "True", "reason": "NamespaceApplied",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let reported = json!([{"name": "b", "clusterSet": "team", "conditions": available}]);
    let sets = vec![
        set("team", exclusive(), &["b", "a"]),
        set("other", exclusive(), &["x"]),
        set("global", all, &["z"]),
    ];
    let wanted = json!([{"name": "z", "clusterSet": "global"}, {"name": "a", "clusterSet": "team"},
        {"name": "b", "clusterSet": "team", "conditions": available}]);
    assert_eq!(list_for(sets.clone(), reported), wanted);
    assert_eq!(list_for(sets, wanted), Value::Null, "nothing is written when it is as it should be");
    assert_eq!(list_for(Vec::new(), json!([{"name": "b", "clusterSet": "team"}])), json!(null));
}
