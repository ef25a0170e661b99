use std::sync::Arc;

use serde_json::{Value, json};

use super::hub::{config_map, object, rendered, repo};
use crate::sync::{Desired, Problem, summary};
use api::names;
use object::RenderedObject;

fn complete(value: Value, is_confined: bool) -> Result<Desired, Vec<Problem>> {
    Desired::complete(&repo(), "ns", vec![rendered(object(value), "x.yaml", 3)], is_confined, None)
}

#[test]
fn an_object_loses_the_fields_that_a_repository_may_not_set() {
    let hostile = json!({"apiVersion": "v1", "kind": "ConfigMap", "status": {"x": 1}, "metadata": {"name": "a", "uid": "u", "resourceVersion": "1",
        "managedFields": [], "ownerReferences": [], "finalizers": ["a.example/b"], "deletionTimestamp": "x", "annotations": {names::CONFIG_REPO_ANNOTATION: "evil/repo", "mine": "1"}}});
    let desired = complete(hostile, false).unwrap();
    let [only] = &desired.objects[..] else { panic!("{desired:?}") };
    assert_eq!(
        serde_json::to_value(only.marked(&only.object, &repo())).unwrap(),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns", "annotations":
            {names::CONFIG_REPO_ANNOTATION: "ns/repo", names::APPLIED_DIGEST_ANNOTATION: only.digest, "mine": "1"}}})
    );
}

#[test]
fn a_repository_cannot_give_the_approvals_of_a_person() {
    let approvals = json!({names::APPROVE_DELETION_ANNOTATION: "a1b2", names::APPROVE_PLAN_ANNOTATION: "e5",
        names::ACCEPT_REVISION_ANNOTATION: "c3", names::RECONCILE_AT_ANNOTATION: "now", names::WEBHOOK_AT_ANNOTATION: "now", "mine": "1"});
    let repo = json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo",
        "metadata": {"name": "repo", "namespace": "ns", "annotations": approvals}, "spec": {"url": "https://git.example/a"}});
    let desired = complete(repo, false).unwrap();
    assert_eq!(desired.objects[0].object.annotations().into_iter().collect::<Vec<_>>(), [("mine", "1")]);
}

#[test]
fn a_repository_cannot_write_the_marks_of_the_operator() {
    let marks = json!({names::REMOVAL_DECIDED_ANNOTATION: "true", names::INSTALLED_BY_ANNOTATION: "true",
        names::ROLLOUT_POLICY_ANNOTATION: "none", names::LAST_GOOD_TEMPLATE_ANNOTATION: "h", "mine": "1"});
    let add_on = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn",
        "metadata": {"name": "a", "annotations": marks}, "spec": {}});
    let desired = complete(add_on, false).unwrap();
    assert_eq!(desired.objects[0].object.annotations().into_iter().collect::<Vec<_>>(), [("mine", "1")]);
}

#[test]
fn a_repository_cannot_give_an_object_to_an_application_of_argo_cd() {
    let left = |id: &str| {
        let argo = json!({"argocd.argoproj.io/tracking-id": id, "argocd.argoproj.io/installation-id": "i", "mine": "1"});
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "annotations": argo}});
        complete(map, false).unwrap().objects[0].object.annotations().len()
    };
    assert_eq!(left("shop:/ConfigMap:ns/a"), 1, "that application would prune it");
    assert_eq!(left("shop:/ConfigMap:ns/other"), 3, "it was copied with the annotations of another object");
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
            "accepts at most 1400000",
        ),
        (
            json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepoInventory", "metadata": {"name": "a"}}),
            "the operator alone writes inventories",
        ),
    ];
    for (value, part) in cases {
        let problems = complete(value, false).unwrap_err();
        let message = problems[0].to_string();
        assert!(message.contains(part) && message.ends_with("(x.yaml:3)"), "{message}");
    }
}

#[test]
fn a_manifest_that_needs_a_namespace_has_one() {
    let of = |kind: &str, manifests: Value| {
        let workload = json!({ "workload": { "manifests": manifests } });
        let (version, spec) = match kind {
            "ManifestWork" => ("v1", workload),
            _ => ("v1alpha1", json!({ "manifestWorkTemplate": workload })),
        };
        let metadata = json!({ "name": "web", "namespace": "fleet" });
        let api_version = format!("work.open-cluster-management.io/{version}");
        let work = json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec });
        complete(work, false).map(|_| ()).map_err(|problems| problems[0].message.clone())
    };
    let map = |metadata: Value| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
    let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "a" } });
    let widget = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "a" } });
    let placed = map(json!({ "name": "a", "namespace": "n" }));
    for kind in ["ManifestWork", "ManifestWorkReplicaSet"] {
        assert_eq!(of(kind, json!([placed, role, widget])), Ok(()));
        let error = of(kind, json!([placed, map(json!({ "name": "b" }))])).unwrap_err();
        let expected =
            "fleet/web: its manifest ConfigMap b has no metadata.namespace, so no cluster can apply it";
        assert!(error.ends_with(expected), "{error}");
    }
}

#[test]
fn an_object_may_be_as_large_as_an_api_server_takes() {
    let of_bytes = |bytes: usize| {
        let map = |data: &str| {
            let metadata = json!({"name": "a", "namespace": "ns"});
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": data}})
        };
        let around = map("").to_string().len();
        complete(map(&"x".repeat(bytes - around)), false)
    };
    assert!(of_bytes(1_400_000).is_ok() && of_bytes(1_400_001).is_err());
}

#[test]
fn a_duplicate_object_is_refused_by_both_places() {
    let deployment = |version: &str, file: &str, line| {
        let metadata = json!({"name": "a", "namespace": "ns"});
        let value = json!({"apiVersion": version, "kind": "Deployment", "metadata": metadata});
        rendered(object(value), file, line)
    };
    let objects = vec![deployment("apps/v1", "a.yaml", 1), deployment("apps/v1beta1", "b.yaml", 9)];
    let problems = Desired::complete(&repo(), "ns", objects, false, None).unwrap_err();
    assert_eq!(problems[0].reason, "DuplicateObject");
    assert!(problems[0].to_string().ends_with("(the other: a.yaml:1) (b.yaml:9)"), "{}", problems[0]);
}

#[test]
fn an_object_without_a_namespace_is_in_the_one_of_its_release_or_the_one_that_is_stated() {
    let completed = |metadata: Value, kind: &str, release: Option<&str>| {
        let version = if kind == "ConfigMap" { "v1" } else { "rbac.authorization.k8s.io/v1" };
        let value = json!({"apiVersion": version, "kind": kind, "metadata": metadata});
        let made = RenderedObject {
            object: object(value),
            release_namespace: release.map(str::to_owned),
            ..RenderedObject::default()
        };
        let desired = Desired::complete(&repo(), "stated", vec![Arc::new(made)], false, None).unwrap();
        desired.objects[0].reference.key.namespace.clone()
    };
    let bare = || json!({"name": "a"});
    assert_eq!(completed(bare(), "ConfigMap", Some("shop")), "shop");
    assert_eq!(completed(bare(), "ConfigMap", None), "stated");
    assert_eq!(completed(json!({"name": "a", "namespace": "own"}), "ConfigMap", Some("shop")), "own");
    assert_eq!(completed(bare(), "ClusterRole", Some("shop")), "");
}

#[test]
fn the_digest_of_a_commit_changes_with_any_of_its_objects() {
    let commit = |data: &str| {
        let config_map = |name: &str, data: &str| {
            let metadata = json!({"name": name, "namespace": "ns"});
            object(
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": data}}),
            )
        };
        super::hub::commit(&[config_map("a", "1"), config_map("b", data)])
    };
    let (one, two) = (commit("1"), commit("2"));
    assert_eq!((one.digest.len(), &one.digest), (16, &commit("1").digest));
    assert_ne!(one.digest, two.digest);
}

#[test]
fn the_hash_of_a_plan_covers_its_objects_and_the_state_before() {
    let hash = |name: &str, data: &str, before: &str| {
        super::hub::commit(&[config_map(name, data), config_map("z", "1")]).plan_hash(before)
    };
    let one = hash("a", "1", "before");
    assert_eq!((one.len(), &one), (32, &hash("a", "1", "before")));
    for other in [hash("b", "1", "before"), hash("a", "2", "before"), hash("a", "1", "other")] {
        assert_ne!(one, other);
    }
}

#[test]
fn an_object_whose_deletion_takes_more_with_it_is_never_recreated() {
    let check = |api_version: &str, kind: &str, value: &str, want: Result<bool, &str>| {
        let metadata = json!({"name": "a", "annotations": {names::FORCE_ANNOTATION: value}});
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
        match (complete(object, false), want) {
            (Ok(desired), Ok(is_recreated)) => {
                assert_eq!(desired.objects[0].is_recreated, is_recreated, "{kind} {value}");
            }
            (Err(problems), Err(part)) => assert!(problems[0].message.contains(part), "{}", problems[0]),
            (found, _) => panic!("{kind} {value}: {found:?}"),
        }
    };
    check("batch/v1", "Job", "enabled", Ok(true));
    check("batch/v1", "Job", "disabled", Ok(false));
    check("batch/v1", "Job", "yes", Err("must be enabled or disabled, not \"yes\""));
    let more = Err("deleting it would delete more than the object");
    check("v1", "Namespace", "enabled", more);
    check("v1", "Namespace", "disabled", Ok(false));
    check("apiextensions.k8s.io/v1", "CustomResourceDefinition", "enabled", more);
    check("gitops.wheelwright.dev/v1alpha1", "ConfigRepo", "enabled", more);
    check("addon.open-cluster-management.io/v1alpha1", "ClusterManagementAddOn", "enabled", more);
}

#[test]
fn the_place_of_an_object_is_found_by_its_reference() {
    let objects = ["a", "b"].map(|name| {
        let metadata = json!({"name": name, "namespace": "ns"});
        rendered(object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})), name, 7)
    });
    let other = objects[1].object.reference();
    let desired = Desired::complete(&repo(), "ns", objects[..1].to_vec(), false, None).unwrap();
    let place = desired.origin(&objects[0].object.reference()).unwrap();
    assert_eq!((place.file.as_str(), place.line, desired.origin(&other)), ("a", 7, None));
}

#[test]
fn a_namespace_of_the_commit_is_not_required() {
    let namespaced = |namespace: &str| {
        let metadata = json!({"name": "a", "namespace": namespace});
        object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))
    };
    let created = object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}}));
    let wanted = super::hub::commit(&[namespaced("mine"), created, namespaced("theirs")]);
    assert_eq!(wanted.required_namespaces(), ["theirs".to_owned()].into());
}

#[test]
fn a_summary_shows_three_problems_and_counts_the_others() {
    let problems = ["a", "b", "c", "d", "e"].map(|message| Problem::of_commit("Wrong", message));
    let check = |count: usize, expected: &str| assert_eq!(summary(&problems[..count]), expected);
    check(1, "a");
    check(3, "a; b; c");
    check(4, "a; b; c; and 1 more");
    check(5, "a; b; c; and 2 more");
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
        let problems = complete(value, true).unwrap_err();
        assert_eq!(problems[0].reason, "NotAllowed", "{kind}");
        assert_eq!(problems[0].message.contains("cluster-scoped"), namespace.is_empty(), "{}", problems[0]);
    }
}

#[test]
fn a_definition_of_the_commit_lets_no_cluster_scoped_object_of_the_hub_out_of_the_namespace() {
    let definition = |group: &str, kind: &str| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{}s.{group}", kind.to_lowercase()), "namespace": "ns"},
            "spec": {"group": group, "names": {"kind": kind, "plural": "x"}, "scope": "Namespaced"}})
    };
    let check = |group: &str, version: &str, kind: &str| {
        let wanted =
            json!({"apiVersion": format!("{group}/{version}"), "kind": kind, "metadata": {"name": "a"}});
        let fake = definition("apiextensions.k8s.io", "CustomResourceDefinition");
        let objects =
            [fake, definition(group, kind), wanted].map(|value| rendered(object(value), "x.yaml", 3));
        let problems = Desired::complete(&repo(), "ns", objects.to_vec(), true, None).unwrap_err();
        let is_named = |problem: &Problem| problem.message.contains(&format!("{kind}.{group} a "));
        assert!(problems.iter().any(is_named), "{problems:?}");
    };
    check("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding");
    check("addon.open-cluster-management.io", "v1alpha1", "ClusterManagementAddOn");
}

#[test]
fn objects_that_stay_the_same_are_taken_from_the_last_commit() {
    let objects: Vec<_> = ["a", "b"].map(|name| rendered(config_map(name, "1"), "x.yaml", 1)).to_vec();
    let complete =
        |objects: &[_], last| Desired::complete(&repo(), "ns", objects.to_vec(), false, last).unwrap();
    let first = complete(&objects, None);
    let changed = rendered(config_map("b", "2"), "x.yaml", 1);
    let next = [objects[0].clone(), changed];
    let second = complete(&next, Some(&first));
    let shared: Vec<_> =
        first.objects.iter().zip(&second.objects).map(|(one, other)| Arc::ptr_eq(one, other)).collect();
    assert_eq!((second, shared), (complete(&next, None), vec![true, false]));
}

#[test]
fn a_definition_that_changes_its_scope_completes_its_objects_again() {
    let definition = |scope: &str| {
        let names = json!({"kind": "Thing", "plural": "things"});
        object(
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.x"},
            "spec": {"group": "x", "names": names, "scope": scope}}),
        )
    };
    let thing = rendered(
        object(json!({"apiVersion": "x/v1", "kind": "Thing", "metadata": {"name": "t"}})),
        "x.yaml",
        1,
    );
    let complete = |scope, last| {
        let objects = vec![rendered(definition(scope), "x.yaml", 9), thing.clone()];
        Desired::complete(&repo(), "ns", objects, false, last).unwrap()
    };
    let namespaced = complete("Namespaced", None);
    let namespaces = |desired: &Desired| -> Vec<_> {
        desired.objects.iter().map(|object| object.reference.key.namespace.clone()).collect()
    };
    let cluster = complete("Cluster", Some(&namespaced));
    assert_eq!(
        (namespaces(&namespaced), namespaces(&cluster)),
        (vec![String::new(), "ns".into()], vec![String::new(); 2])
    );
}
