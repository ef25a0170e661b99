use k8s_openapi::api::core::v1::Namespace;
use serde_json::{Value, json};

use super::*;
use object::{Object, ObjectRef};
use reconcile::{Caches, Lookup, LookupAnswer, Site};

/// Returns the plan for an accepted cluster whose namespace has these labels.
fn accepted(conditions: Value, namespace: Option<Value>) -> Value {
    let caches = to_accept(conditions, namespace);
    let plan = ClusterController::plan(&Key::cluster("kube-system"), &caches, Timestamp::UNIX_EPOCH);
    serde_json::to_value(plan.unwrap()).unwrap()
}

fn to_accept(conditions: Value, namespace: Option<Value>) -> Caches {
    let mut caches = Caches::default();
    let cluster = json!({"metadata": {"name": "kube-system", "resourceVersion": "1"}, "spec": {"hubAcceptsClient": true},
        "status": {"conditions": conditions}});
    caches.replace::<ManagedCluster>(Site::Hub, vec![typed(cluster)], "1");
    let namespaces = namespace.map(|labels| json!({"metadata": {"name": "kube-system", "labels": labels}}));
    let namespaces = namespaces.map(typed);
    caches.replace::<Namespace>(Site::Hub, namespaces.into_iter().collect(), "1");
    caches.replace::<ClusterRole>(Site::Hub, Vec::new(), "1");
    caches.replace::<ClusterRoleBinding>(Site::Hub, Vec::new(), "1");
    caches.replace::<RoleBinding>(Site::Hub, Vec::new(), "1");
    caches
}

fn condition(plan: &Value) -> String {
    let condition = &plan["status"]["patch"]["status"]["conditions"][0];
    format!("{} {} {}", condition["status"], condition["reason"], condition["message"]).replace('"', "")
}

fn typed<K: Kind>(object: Value) -> K {
    Object::from_value(object).unwrap().to_typed().unwrap()
}

/// Returns the plan at a second for a cluster that is on no list, but whose name and these labels are on a role.
fn vanished(name: &str, labels: Value, second: i64, clusters: Option<Vec<ManagedCluster>>) -> Read<Value> {
    plan_of(name, &of_vanished(name, labels, clusters), second)
}

fn plan_of(name: &str, caches: &Caches, second: i64) -> Read<Value> {
    let now = Timestamp::from_second(second).unwrap();
    let plan = ClusterController::plan(&Key::cluster(name), caches, now)?;
    Ok(serde_json::to_value(plan).unwrap())
}

/// Returns the leftovers of a cluster: a work and a role.
fn of_vanished(name: &str, labels: Value, clusters: Option<Vec<ManagedCluster>>) -> Caches {
    let metadata = |more: Value| {
        let mut metadata = json!({"resourceVersion": "1", "uid": "u", "labels": labels,
            "creationTimestamp": "1970-01-01T00:00:00Z"});
        metadata.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"metadata": metadata})
    };
    let mut caches = Caches::default();
    if let Some(clusters) = clusters {
        caches.replace::<ManagedCluster>(Site::Hub, clusters, "1");
    }
    let mut work = metadata(json!({"name": "w", "namespace": name}));
    work["spec"] = json!({"workload": {"manifests": []}});
    caches.replace::<ManifestWork>(Site::Hub, vec![typed(work)], "1");
    caches.replace::<ManagedClusterAddOn>(Site::Hub, Vec::new(), "1");
    caches.replace::<ClusterRole>(Site::Hub, vec![typed(metadata(json!({"name": rbac::name(name)})))], "1");
    caches.replace::<ClusterRoleBinding>(Site::Hub, Vec::new(), "1");
    caches.replace::<RoleBinding>(Site::Hub, Vec::new(), "1");
    caches
}

/// Returns a hub with `c1` and an accepted cluster whose role has overwritten any shared role with its name.
fn with_permissions(name: &str, is_leaving: bool) -> Caches {
    let conditions = json!([{"type": "HubAcceptedManagedCluster", "status": "True", "reason": "HubClusterAdminAccepted",
        "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z"}]);
    let mut cluster = json!({"metadata": {"name": name, "resourceVersion": "1"}, "spec": {"hubAcceptsClient": true},
        "status": {"conditions": conditions}});
    if is_leaving {
        cluster["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
    }
    let other = json!({"metadata": {"name": "c1", "resourceVersion": "1"}});
    let mut caches = Caches::default();
    caches.replace::<ManagedCluster>(Site::Hub, vec![typed(other), typed(cluster)], "1");
    caches.replace::<Namespace>(Site::Hub, Vec::new(), "1");
    caches.replace::<ManifestWork>(Site::Hub, Vec::new(), "1");
    caches.replace::<ManagedClusterAddOn>(Site::Hub, Vec::new(), "1");
    let shared = rbac::shared_roles().into_iter().filter(|role| role.name() != rbac::name(name));
    let roles = shared.chain([rbac::cluster_role(name, true)]).collect();
    caches.replace::<ClusterRole>(Site::Hub, roles, "1");
    caches.replace::<ClusterRoleBinding>(Site::Hub, vec![rbac::cluster_role_binding(name)], "1");
    let bindings = vec![rbac::registration_binding(name), rbac::work_binding(name)];
    caches.replace::<RoleBinding>(Site::Hub, bindings, "1");
    caches
}

#[test]
fn the_works_of_a_cluster_that_may_be_there_are_not_deleted() {
    let label = |name: &str| json!({"open-cluster-management.io/cluster-name": name});
    let gone = vanished("c1", label("c1"), 600, Some(Vec::new()));
    assert!(
        gone.is_err_and(|error| error.is_coming()),
        "a list may leave it out, so the hub is asked for it"
    );
    let lookup = || Lookup::Object(ObjectRef::of::<ManagedCluster>(Key::cluster("c1")));
    let cluster = json!({"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": {"name": "c1"}});
    for (answer, deletions) in [(Some(cluster), 0), (None, 1)] {
        let mut caches = of_vanished("c1", label("c1"), Some(Vec::new()));
        let answer = answer.map(|cluster| Arc::new(Object::from_value(cluster).unwrap()));
        caches.set_answer(lookup(), Ok(LookupAnswer::Object(answer)));
        let plan = plan_of("c1", &caches, 600).unwrap();
        let steps = plan["steps"].as_array().unwrap();
        let actions: usize = steps.iter().map(|step| step.as_array().unwrap().len()).sum();
        assert_eq!(actions, deletions, "{plan}");
    }
    let unread = vanished("c1", label("c1"), 600, None);
    assert!(unread.is_err(), "{unread:?}");
    let young = vanished("c1", label("c1"), 599, Some(Vec::new())).unwrap();
    assert_eq!((&young["steps"], young["wake_at"].is_null()), (&json!([]), false), "{young}");
    // The shared role for works has the name that the role of a cluster `work` would have.
    let shared = vanished("work", label(""), 600, Some(Vec::new())).unwrap();
    assert_eq!(shared["steps"], json!([]));
}

#[test]
fn a_namespace_of_something_else_is_given_to_no_cluster() {
    for labels in [json!({}), json!({"open-cluster-management.io/cluster-name": "c1"})] {
        let plan = accepted(json!([]), Some(labels));
        assert_eq!(plan["steps"], json!([]));
        let reason = "False Error the namespace kube-system exists without the label \
            open-cluster-management.io/cluster-name=kube-system; add the label if the namespace is meant for this cluster";
        assert_eq!(condition(&plan), reason);
    }
}

#[test]
fn a_cluster_with_a_reserved_name_gets_nothing_and_loses_what_it_was_given() {
    let unbound = ["delete ClusterRoleBinding", "delete RoleBinding", "delete RoleBinding"];
    for (name, restored) in [("work", 1), ("registration", 1), ("managed-clusters", 0)] {
        let plan = plan_of(name, &with_permissions(name, false), 600).unwrap();
        let repaired = std::iter::repeat_n("apply ClusterRole", restored);
        assert_eq!(actions(&plan), unbound.into_iter().chain(repaired).collect::<Vec<_>>(), "{name}");
        let refused = condition(&plan);
        assert!(refused.starts_with(&format!("False Error the name {name} is reserved")), "{refused}");
    }
}

#[test]
fn a_leaving_cluster_with_a_reserved_name_takes_no_shared_role_with_it() {
    for name in ["work", "registration"] {
        let mut caches = with_permissions(name, true);
        caches.replace::<RoleBinding>(Site::Hub, Vec::new(), "1");
        assert_eq!(actions(&plan_of(name, &caches, 600).unwrap()), ["delete ClusterRoleBinding"], "{name}");
    }
}

/// Returns the actions of a plan with the affected kinds.
fn actions(plan: &Value) -> Vec<String> {
    let steps = plan["steps"].as_array().unwrap().iter().flat_map(|step| step.as_array().unwrap());
    let described = steps.map(|action| {
        let kinds = [&action["object"]["kind"], &action["target"]["gvk"]["kind"]];
        let kind: String = kinds.into_iter().filter_map(Value::as_str).collect();
        format!("{} {kind}", action["action"].as_str().unwrap())
    });
    described.collect()
}

#[test]
fn a_cluster_gets_the_namespace_that_is_labeled_for_it_or_a_new_one() {
    for namespace in [None, Some(json!({"open-cluster-management.io/cluster-name": "kube-system"}))] {
        let plan = accepted(json!([]), namespace);
        assert_ne!(plan["steps"], json!([]));
        assert_eq!(condition(&plan), "True HubClusterAdminAccepted Accepted by hub cluster admin");
    }
}

#[test]
fn a_cluster_that_was_accepted_gets_the_label_of_its_namespace_back() {
    let conditions = json!([{"type": "HubAcceptedManagedCluster", "status": "True", "reason": "HubClusterAdminAccepted",
        "message": "Accepted by hub cluster admin", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let plan = accepted(conditions, Some(json!({})));
    assert_eq!(plan["steps"][0][0]["object"]["kind"], "Namespace");
}

#[test]
fn a_cluster_whose_permissions_are_refused_says_why_it_is_not_accepted() {
    let condition = |conditions: Value, kind: FailureKind| {
        let caches = to_accept(conditions, None);
        let (key, now) = (Key::cluster("kube-system"), Timestamp::UNIX_EPOCH);
        let plan = ClusterController::plan(&key, &caches, now).unwrap();
        let failure = Failure { kind, message: "cannot write the role: no".into() };
        let done = Executed { plan, outcomes: vec![vec![Err(failure)]] };
        let write = ClusterController::conclude(&key, &caches, &done, now).unwrap()?;
        assert!(write.events.is_empty(), "OCM has no event for it");
        Some(condition(&json!({"status": serde_json::to_value(write).unwrap()})))
    };
    let refused = condition(json!([]), FailureKind::Forbidden);
    assert_eq!(refused.as_deref(), Some("False Error cannot write the role: no"));
    assert_eq!(condition(json!([]), FailureKind::Unavailable), None, "it passes by itself");
    let accepted = json!([{"type": "HubAcceptedManagedCluster", "status": "True", "reason": "HubClusterAdminAccepted",
        "message": "Accepted by hub cluster admin", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    assert_eq!(condition(accepted, FailureKind::Forbidden), None, "it keeps the permissions that it has");
}
