use serde_json::{Value, json};

use super::hub::{object, rendered, repo};
use crate::sync::{Desired, Problem};
use api::names;

fn complete(value: Value, is_confined: bool) -> Result<Desired, Vec<Problem>> {
    Desired::complete(&repo(), vec![rendered(object(value), "x.yaml", 3)], is_confined)
}

#[test]
fn an_object_loses_the_fields_that_a_repository_may_not_set() {
    let hostile = json!({"apiVersion": "v1", "kind": "ConfigMap", "status": {"x": 1}, "metadata": {"name": "a", "uid": "u", "resourceVersion": "1",
        "managedFields": [], "ownerReferences": [], "deletionTimestamp": "x", "annotations": {names::CONFIG_REPO_ANNOTATION: "evil/repo", "mine": "1"}}});
    let desired = complete(hostile, false).unwrap();
    let [only] = &desired.objects[..] else { panic!("{desired:?}") };
    assert_eq!(
        serde_json::to_value(only.marked(&repo())).unwrap(),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns", "annotations":
            {names::CONFIG_REPO_ANNOTATION: "ns/repo", names::APPLIED_DIGEST_ANNOTATION: only.digest, "mine": "1"}}})
    );
}

#[test]
fn a_repository_cannot_give_the_approvals_of_a_person() {
    let approvals = json!({names::APPROVE_DELETION_ANNOTATION: "a1b2", names::ACCEPT_REVISION_ANNOTATION: "c3", "mine": "1"});
    let repo = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo",
        "metadata": {"name": "repo", "namespace": "ns", "annotations": approvals}, "spec": {"url": "https://git.example/a"}});
    let desired = complete(repo, false).unwrap();
    assert_eq!(desired.objects[0].object.annotations().into_iter().collect::<Vec<_>>(), [("mine", "1")]);
}

#[test]
fn an_object_that_cannot_be_applied_is_refused_by_its_place() {
    let big = "x".repeat(1_500_000);
    let cases = [
        (json!({"kind": "ConfigMap", "metadata": {"name": "a"}}), "no apiVersion or no kind"),
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}}),
            "generateName cannot be applied",
        ),
        (json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": 7}}), "no metadata.name"),
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "annotations": []}}),
            "is not a map",
        ),
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": big}}),
            "takes 1400000 at most",
        ),
    ];
    for (value, part) in cases {
        let problems = complete(value, false).unwrap_err();
        let message = problems[0].to_string();
        assert!(message.contains(part) && message.ends_with("(x.yaml:3)"), "{message}");
    }
}

#[test]
fn a_duplicate_object_is_refused_by_both_places() {
    let deployment = |version: &str, file: &str, line| {
        let metadata = json!({"name": "a", "namespace": "ns"});
        let value = json!({"apiVersion": version, "kind": "Deployment", "metadata": metadata});
        rendered(object(value), file, line)
    };
    let objects = vec![deployment("apps/v1", "a.yaml", 1), deployment("apps/v1beta1", "b.yaml", 9)];
    let problems = Desired::complete(&repo(), objects, false).unwrap_err();
    assert_eq!(problems[0].reason, "DuplicateObject");
    assert!(problems[0].to_string().ends_with("(the other: a.yaml:1) (b.yaml:9)"), "{}", problems[0]);
}

#[test]
fn a_confined_repository_stays_in_its_namespace() {
    let check = |value: Value| complete(value, true).map_err(|problems| problems[0].reason);
    let metadata = |namespace: &str| json!({"name": "a", "namespace": namespace});
    assert!(check(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("ns")})).is_ok());
    assert!(check(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})).is_ok());
    let refused = [
        ("v1", "ConfigMap", "other"),
        ("v1", "Namespace", ""),
        ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", ""),
        ("gitops.wheelwright.dev/v1alpha1", "ConfigRepo", "ns"),
        ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", ""),
        ("addon.open-cluster-management.io/v1alpha1", "ClusterManagementAddOn", ""),
        ("x.io/v1", "Unknown", ""),
    ];
    for (version, kind, namespace) in refused {
        let value = json!({"apiVersion": version, "kind": kind, "metadata": metadata(namespace)});
        assert_eq!(check(value).unwrap_err(), "NotAllowed", "{kind}");
    }
}
