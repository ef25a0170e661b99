//! Tests for the permissions that an agent needs for its works.

use api::work::v1::ManifestWork;
use serde_json::{Value, json};

use crate::work::rules;

fn of(works: Value) -> Value {
    let works: Vec<ManifestWork> = serde_json::from_value(works).unwrap();
    serde_json::to_value(rules(&works)).unwrap()
}

fn work(manifests: Value, reported: Value) -> Value {
    let reported: Vec<Value> = reported
        .as_array()
        .unwrap()
        .iter()
        .map(|meta| json!({"resourceMeta": meta, "conditions": []}))
        .collect();
    json!({
        "metadata": {"name": "w", "namespace": "c1"}, "spec": {"workload": {"manifests": manifests}},
        "status": {"resourceStatus": {"manifests": reported}},
    })
}

#[test]
fn an_agent_may_apply_the_kinds_of_its_works_and_remove_what_they_had() {
    let mesh = json!({"apiVersion": "mesh.io/v1", "kind": "Mesh", "metadata": {"name": "m"}});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "a"}});
    let served = json!({"ordinal": 0, "group": "mesh.io", "kind": "Mesh", "resource": "meshen"});
    let before = json!({"ordinal": 1, "group": "apps", "kind": "Deployment", "resource": "deployments"});
    let works = json!([work(json!([mesh, map]), json!([served, before])), work(json!([map]), json!([]))]);
    let all = ["get", "list", "watch", "create", "patch", "delete"];
    let expected = json!([
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": all},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": all},
        {"apiGroups": ["mesh.io"], "resources": ["meshen"], "verbs": all},
    ]);
    assert_eq!(of(works), expected);
    assert_eq!(of(json!([])), json!([]));
}

#[test]
fn a_resource_in_a_status_counts_only_for_its_kind_and_without_wildcards() {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "a"}});
    let reported = |group: &str, kind: &str, resource: &str| {
        let meta = json!({"ordinal": 0, "group": group, "kind": kind, "resource": resource});
        of(json!([work(json!([map]), json!([meta]))]))
    };
    let all = ["get", "list", "watch", "create", "patch", "delete"];
    let rule =
        |group: &str, resources: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": all});
    let of_kind = json!([rule("", &["configmaps"])]);
    for (group, kind, resource) in
        [("*", "X", "things"), ("", "ConfigMap", "*"), ("", "ConfigMap", "a/b"), ("", "X", "")]
    {
        assert_eq!(reported(group, kind, resource), of_kind, "{group} {resource}");
    }
    assert_eq!(reported("", "ConfigMap", "config-maps2"), json!([rule("", &["config-maps2"])]));
    assert_eq!(reported("", "Secret", "secrets"), json!([rule("", &["configmaps", "secrets"])]));
    let two = json!([rule("", &["configmaps"]), rule("o.io", &["maps"])]);
    assert_eq!(reported("o.io", "ConfigMap", "maps"), two);
}

#[test]
fn a_work_with_roles_and_bindings_needs_to_escalate_and_to_bind_them() {
    let rbac = |kind: &str, role: Value| {
        let mut object =
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "x"}});
        object["roleRef"] = role;
        object
    };
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"});
    let manifests = json!([rbac("Role", Value::Null), rbac("RoleBinding", role)]);
    let all = ["get", "list", "watch", "create", "patch", "delete"];
    let group = ["rbac.authorization.k8s.io"];
    let expected = json!([
        {"apiGroups": group, "resources": ["rolebindings", "roles"], "verbs": all},
        {"apiGroups": group, "resources": ["roles"], "verbs": ["escalate"]},
        {"apiGroups": group, "resources": ["clusterroles"], "resourceNames": ["view"], "verbs": ["bind"]},
    ]);
    assert_eq!(of(json!([work(manifests, json!([]))])), expected);
}

#[test]
fn an_agent_may_act_as_the_executors_of_its_works() {
    let of_executor = |kind: &str, version: &str| {
        let object =
            json!({"apiVersion": version, "kind": kind, "metadata": {"name": "x", "namespace": "a"}});
        let mut work = work(json!([object]), json!([]));
        let account = json!({"namespace": "team", "name": "deployer"});
        work["spec"]["executor"] = json!({"subject": {"type": "ServiceAccount", "serviceAccount": account}});
        of(json!([work])).as_array().unwrap().clone()
    };
    let expected = json!({"apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": ["deployer"], "verbs": ["impersonate"]});
    for (kind, version) in [("Role", "rbac.authorization.k8s.io/v1"), ("ConfigMap", "v1")] {
        assert_eq!(of_executor(kind, version).last(), Some(&expected), "{kind}");
    }
}
