use serde_json::Value;

use super::*;
use reconcile::{Caches, Site};

/// Returns the patch that is written to a cluster.
fn patch(labels: &Value, taints: &Value) -> Value {
    let mut caches = Caches::default();
    let metadata = json!({"name": "c1", "resourceVersion": "1", "labels": labels});
    let cluster = json!({"metadata": metadata, "spec": {"taints": taints}});
    caches.replace::<ManagedCluster>(Site::Hub, vec![serde_json::from_value(cluster).unwrap()], "1");
    let plan = ClusterDefaultsController::plan(&Key::cluster("c1"), &caches, Timestamp::UNIX_EPOCH);
    serde_json::to_value(plan.unwrap()).unwrap()["steps"][0][0]["patch"].clone()
}

#[test]
fn a_cluster_without_a_set_joins_the_default_set() {
    let wanted = json!({"metadata": {"labels": {CLUSTER_SET_LABEL: "default"}}});
    assert_eq!(patch(&json!({}), &json!([])), wanted);
    assert_eq!(patch(&json!({CLUSTER_SET_LABEL: ""}), &json!([])), wanted);
    assert_eq!(patch(&json!({CLUSTER_SET_LABEL: "team"}), &json!([])), Value::Null);
}

#[test]
fn a_taint_without_a_time_gets_one_and_others_keep_theirs() {
    let set = json!({CLUSTER_SET_LABEL: "team"});
    let old = json!({"key": "old", "effect": "NoSelect", "timeAdded": "2026-01-01T00:00:00Z"});
    let new = json!({"key": "new", "effect": "NoSelect"});
    let mut stamped = new.clone();
    stamped["timeAdded"] = "1970-01-01T00:00:00Z".into();
    assert_eq!(patch(&set, &json!([old, new])), json!({"spec": {"taints": [old, stamped]}}));
    assert_eq!(patch(&set, &json!([old])), Value::Null);
}
