use k8s_openapi::api::core::v1::Namespace;
use serde_json::{Value, json};

use super::*;
use object::Object;
use reconcile::{Caches, Site};

/// Returns the plan for a cluster that is accepted, where its namespace has these labels.
fn accepted(conditions: Value, namespace: Option<Value>) -> Value {
    let typed = |object: Value| Object::from_value(object).unwrap();
    let mut caches = Caches::default();
    let cluster = json!({"metadata": {"name": "kube-system", "resourceVersion": "1"}, "spec": {"hubAcceptsClient": true},
        "status": {"conditions": conditions}});
    caches.replace::<ManagedCluster>(Site::Hub, vec![typed(cluster).to_typed().unwrap()], "1");
    let namespaces = namespace.map(|labels| json!({"metadata": {"name": "kube-system", "labels": labels}}));
    let namespaces = namespaces.map(|namespace| typed(namespace).to_typed().unwrap());
    caches.replace::<Namespace>(Site::Hub, namespaces.into_iter().collect(), "1");
    caches.replace::<ClusterRole>(Site::Hub, Vec::new(), "1");
    caches.replace::<ClusterRoleBinding>(Site::Hub, Vec::new(), "1");
    caches.replace::<RoleBinding>(Site::Hub, Vec::new(), "1");
    let plan = ClusterController::plan(&Key::cluster("kube-system"), &caches, Timestamp::UNIX_EPOCH);
    serde_json::to_value(plan.unwrap()).unwrap()
}

fn condition(plan: &Value) -> String {
    let condition = &plan["status"]["patch"]["status"]["conditions"][0];
    format!("{} {} {}", condition["status"], condition["reason"], condition["message"]).replace('"', "")
}

#[test]
fn a_namespace_of_something_else_is_given_to_no_cluster() {
    for labels in [json!({}), json!({"open-cluster-management.io/cluster-name": "c1"})] {
        let plan = accepted(json!([]), Some(labels));
        assert_eq!(plan["steps"], json!([]));
        let why = "False Error the namespace kube-system exists and has no label \
            open-cluster-management.io/cluster-name=kube-system; add the label if it is for the cluster";
        assert_eq!(condition(&plan), why);
    }
}

#[test]
fn a_cluster_gets_the_namespace_that_is_labelled_for_it_or_a_new_one() {
    for namespace in [None, Some(json!({"open-cluster-management.io/cluster-name": "kube-system"}))] {
        let plan = accepted(json!([]), namespace);
        assert_ne!(plan["steps"], json!([]));
        assert_eq!(condition(&plan), "True HubClusterAdminAccepted Accepted by hub cluster admin");
    }
}

#[test]
fn a_cluster_that_was_accepted_gets_the_label_of_its_namespace_back() {
    let held = json!([{"type": "HubAcceptedManagedCluster", "status": "True", "reason": "HubClusterAdminAccepted",
        "message": "Accepted by hub cluster admin", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let plan = accepted(held, Some(json!({})));
    assert_eq!(plan["steps"][0][0]["object"]["kind"], "Namespace");
}
