use std::collections::BTreeMap;

use serde_json::json;

use super::hub::{Hub, commit, config_map, object};
use crate::sync::{Apply, Claimant, Deletion, Desired, ObjectId, Uninstall};
use api::names;
use object::Key;

#[test]
fn a_second_plan_writes_nothing() {
    let (mut hub, wanted) = (Hub::new(), commit(&[config_map("a", "1"), config_map("b", "1")]));
    assert!(hub.settle(&wanted).is_settled());
    assert_eq!(hub.writes, 2);
    assert_eq!(hub.plan(&wanted).inventory, hub.inventory);
}

#[test]
fn a_field_that_left_the_manifest_is_applied_away() {
    let mut hub = Hub::new();
    let mut first = config_map("a", "1");
    first.0.insert("immutable".into(), true.into());
    hub.settle(&commit(&[first]));
    let second = commit(&[config_map("a", "1")]);
    assert_eq!(hub.plan(&second).apply.len(), 1, "the live object covers the manifest and is applied anyway");
}

#[test]
fn stages_are_barriers_in_order_and_deletions_run_in_reverse() {
    let namespace = object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}));
    let addon = object(
        json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn", "metadata": {"name": "m"}}),
    );
    let wanted = commit(&[addon, config_map("a", "1"), namespace, config_map("b", "1")]);
    let mut hub = Hub::new();
    let kind = |apply: &Apply<'_>| apply.desired.reference.gvk.kind.clone();
    let applied: Vec<Vec<String>> =
        hub.plan(&wanted).apply.iter().map(|stage| stage.iter().map(kind).collect()).collect();
    assert_eq!(applied, [vec!["Namespace"], vec!["ConfigMap", "ConfigMap"], vec!["ClusterManagementAddOn"]]);
    hub.settle(&wanted);
    let gone = commit(&[object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}))]);
    let kind = |deletion: &Deletion| deletion.target.gvk.kind.clone();
    let deleted: Vec<Vec<String>> =
        hub.plan(&gone).delete.iter().map(|stage| stage.iter().map(kind).collect()).collect();
    assert_eq!(deleted, [vec!["ClusterManagementAddOn"], vec!["ConfigMap", "ConfigMap"]]);
}

#[test]
fn a_kind_that_cannot_be_read_freezes_its_deletions_and_writes() {
    let mut hub = Hub::new();
    hub.settle(&commit(&[config_map("a", "1"), config_map("b", "1")]));
    hub.unread = vec!["ConfigMap"];
    let secret =
        object(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "ns"}}));
    let wanted = commit(&[secret]);
    let plan = hub.plan(&wanted);
    assert!(plan.delete.is_empty() && plan.hold.is_none() && plan.apply.len() == 1);
    assert_eq!(plan.inventory.len(), 3, "an object that could not be read stays in the inventory");
    let wanted = commit(&[config_map("a", "2")]);
    let plan = hub.plan(&wanted);
    assert!(plan.apply.is_empty() && plan.inventory == hub.inventory);
    assert_eq!(
        plan.unread,
        ["cannot read ConfigMap: its objects have not been listed yet; if this persists, the definition of \
             ConfigMap is missing"]
    );
}

#[test]
fn a_kind_defined_in_the_same_commit_does_not_wait() {
    let definition = object(
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "foos.x.io"},
        "spec": {"group": "x.io", "scope": "Namespaced", "names": {"kind": "Foo"}}}),
    );
    let foo = object(json!({"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "f"}}));
    let mut hub = Hub::new();
    hub.unread = vec!["Foo"];
    let wanted = commit(&[foo, definition]);
    let namespaced = Key::namespaced("ns", "f");
    assert_eq!(
        wanted.objects[1].reference.key, namespaced,
        "the definition says that the kind is namespaced"
    );
    let plan = hub.plan(&wanted);
    assert_eq!((plan.apply.len(), plan.unread.len()), (2, 0));
    assert!(!plan.apply[1][0].force);
}

#[test]
fn every_deletion_waits_with_a_reason_if_a_config_repo_cannot_judge_the_commit() {
    let all: Vec<_> = (0..8).map(|i| config_map(&format!("c{i}"), "1")).collect();
    let mut hub = Hub::new();
    hub.settle(&commit(&all));
    hub.unjudged = Some("its overlay is broken");
    let hold = hub.settle(&commit(&all[..7])).hold.unwrap();
    assert_eq!((hold.objects.len(), hold.why.as_str()), (1, "its overlay is broken"));
    let hold = hub.settle(&commit(&all[..1])).hold.unwrap();
    assert_eq!(hold.why, "its overlay is broken; 7 deletions are over the budget of 5");
}

#[test]
fn deletions_over_the_budget_wait_for_exactly_their_approval() {
    let all: Vec<_> = (0..8).map(|i| config_map(&format!("c{i}"), "1")).collect();
    let mut hub = Hub::new();
    hub.settle(&commit(&all));
    let left = commit(&all[..1]);
    let hold = hub.settle(&left).hold.unwrap();
    assert_eq!((hold.objects.len(), hub.names().len(), hub.inventory.len()), (7, 8, 8));
    assert_eq!(hold.why, "7 deletions are over the budget of 5");
    hub.policy.approved = "something else".into();
    assert!(hub.settle(&left).hold.is_some());
    hub.policy.approved = hold.approval;
    assert!(hub.settle(&left).is_settled());
    assert_eq!((hub.names(), hub.inventory.len()), (vec!["c0"], 1));
}

#[test]
fn an_approval_of_deletions_is_used_up_by_them() {
    let all: Vec<_> = (0..8).map(|i| config_map(&format!("c{i}"), "1")).collect();
    let mut hub = Hub::new();
    hub.settle(&commit(&all));
    let left = commit(&all[..1]);
    hub.policy.approved = hub.settle(&left).hold.unwrap().approval;
    assert!(hub.settle(&left).is_settled());
    hub.settle(&commit(&all));
    let hold = hub.settle(&left).hold.expect("the commit was reverted, and came again");
    assert_eq!((hold.objects.len(), hub.names().len()), (7, 8));
    hub.policy.approved = hold.approval;
    assert!(hub.settle(&left).is_settled());
}

#[test]
fn a_deletion_that_cannot_be_read_counts_against_the_budget() {
    let secret = |i| {
        let metadata = json!({"name": format!("s{i}"), "namespace": "ns"});
        object(json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata}))
    };
    let maps = (0..4).map(|i| config_map(&format!("c{i}"), "1"));
    let all: Vec<_> = maps.chain((0..6).map(secret)).collect();
    let mut hub = Hub::new();
    hub.settle(&commit(&all));
    let left = commit(&all[..1]);
    hub.unread = vec!["Secret"];
    let hold = hub.plan(&left).hold.expect("three deletions are known and six may follow");
    assert_eq!((hold.objects.len(), hub.plan(&left).delete.len()), (9, 0));
    hub.unread.clear();
    hub.policy.approved = hold.approval;
    let read = hub.plan(&left).hold.expect("the approval was for objects that nobody had seen");
    assert_eq!(read.objects, hold.objects);
    hub.policy.approved.clear();
    hub.unread = vec!["Secret"];
    hub.policy.prune = false;
    assert_eq!(hub.plan(&left).hold, None, "nothing is deleted without pruning");
}

#[test]
fn an_orphaned_or_foreign_object_leaves_the_inventory() {
    let mut hub = Hub::new();
    hub.settle(&commit(&[
        config_map("stays", "1"),
        config_map("kept", "1"),
        config_map("theirs", "1"),
        config_map("x", "1"),
    ]));
    let annotate = |hub: &mut Hub, name: &str, annotation: &str, value: &str| {
        hub.edit(name, |live| live.metadata_mut()["annotations"][annotation] = value.into());
    };
    annotate(&mut hub, "kept", names::PRUNE_ANNOTATION, "disabled");
    annotate(&mut hub, "theirs", names::CONFIG_REPO_ANNOTATION, "ns/other");
    assert!(hub.settle(&commit(&[config_map("stays", "1")])).is_settled());
    assert_eq!(hub.names(), ["kept", "stays", "theirs"]);
    assert_eq!(hub.inventory.len(), 1);
}

#[test]
fn an_object_that_waits_for_its_namespace_does_not_hold_up_the_others() {
    let mut hub = Hub::new();
    let mut elsewhere = config_map("b", "1");
    elsewhere.metadata_mut().insert("namespace".into(), "cluster-1".into());
    let wanted = commit(&[config_map("a", "1"), elsewhere]);
    assert_eq!(wanted.required_namespaces(), ["cluster-1".to_owned(), "ns".to_owned()].into());
    hub.missing_namespaces = ["cluster-1".to_owned()].into();
    let plan = hub.settle(&wanted);
    assert_eq!((hub.names(), plan.pending_namespace.len(), plan.is_settled()), (vec!["a"], 1, false));
    hub.missing_namespaces.clear();
    assert!(hub.settle(&wanted).is_settled());
}

#[test]
fn without_prune_nothing_is_deleted() {
    let mut hub = Hub::new();
    hub.policy.prune = false;
    hub.settle(&commit(&[config_map("a", "1"), config_map("b", "1")]));
    assert!(hub.settle(&commit(&[config_map("a", "1")])).is_settled());
    assert_eq!(hub.names(), ["a", "b"]);
}

#[test]
fn a_repository_never_deletes_itself_or_its_namespace() {
    let itself = object(
        json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo", "metadata": {"name": "repo", "namespace": "ns"}}),
    );
    let namespace = object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}}));
    let mut hub = Hub::new();
    hub.settle(&commit(&[itself, namespace, config_map("a", "1")]));
    assert!(hub.settle(&commit(&[config_map("a", "1")])).is_settled());
    assert_eq!(hub.deleted, []);
}

#[test]
fn an_object_that_shares_only_a_name_with_its_repository_or_namespace_is_deleted() {
    let other = object(
        json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo", "metadata": {"name": "other", "namespace": "ns"}}),
    );
    let mut hub = Hub::new();
    hub.settle(&commit(&[config_map("ns", "1"), config_map("repo", "1"), other, config_map("a", "1")]));
    assert!(hub.settle(&commit(&[config_map("a", "1")])).is_settled());
    assert_eq!(hub.names(), ["a"]);
}

#[test]
fn an_object_that_is_being_deleted_is_neither_written_nor_deleted_again() {
    let mut hub = Hub::new();
    hub.settle(&commit(&[config_map("wanted", "1"), config_map("left", "1"), config_map("left-too", "1")]));
    for name in ["wanted", "left", "left-too"] {
        let time = "2026-01-01T00:00:00Z";
        hub.edit(name, |live| {
            live.metadata_mut().insert("deletionTimestamp".into(), time.into());
        });
    }
    let wanted = commit(&[config_map("wanted", "2")]);
    let plan = hub.plan(&wanted);
    assert!(plan.apply.is_empty() && plan.correct.is_empty() && plan.delete.is_empty());
    assert_eq!((plan.terminating.len(), plan.inventory.len()), (3, 3));
}

#[test]
fn drift_is_distinguished_from_changes_of_the_repository() {
    let (mut hub, wanted) = (Hub::new(), commit(&[config_map("a", "1"), config_map("b", "1")]));
    hub.settle(&wanted);
    hub.edit("a", |live| {
        live.0["data"]["k"] = "edited".into();
        live.0["data"]["more"] = "not ours".into();
    });
    let plan = hub.plan(&wanted);
    assert_eq!((plan.apply.len(), plan.correct.len()), (0, 1));
}

#[test]
fn one_refused_object_refuses_the_commit() {
    let mut hub = Hub::new();
    hub.settle(&commit(&[config_map("old", "1")]));
    hub.insert(config_map("theirs", "2"));
    let wanted = commit(&[config_map("new", "1"), config_map("theirs", "1")]);
    let plan = hub.plan(&wanted);
    assert!(plan.apply.is_empty() && plan.delete.is_empty() && plan.inventory == hub.inventory);
    assert_eq!(plan.problems[0].reason, "TakeoverRefused");
    assert!(plan.problems[0].to_string().ends_with("(a.yaml:1)"));
}

#[test]
fn an_object_that_cannot_be_changed_is_created_again_only_as_its_annotation_says() {
    let job = |image: &str, force: &str| {
        let metadata =
            json!({"name": "j", "namespace": "ns", "annotations": {names::FORCE_ANNOTATION: force}});
        object(
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"image": image}}),
        )
    };
    let mut hub = Hub::new();
    hub.settle(&commit(&[job("1", "enabled")]));
    hub.edit("j", |live| {
        live.metadata_mut().insert("uid".into(), "u1".into());
    });
    let wanted = commit(&[job("2", "enabled")]);
    let planned = |hub: &Hub, wanted| {
        let plan = hub.plan(wanted);
        (plan.recreate.len(), plan.apply.len(), plan.terminating.len())
    };
    assert_eq!(planned(&hub, &wanted), (0, 1, 0), "nothing says that it cannot be changed");
    let refused = |desired: &Desired| desired.objects[0].digest.clone();
    hub.policy.unchangeable.insert("u1".into(), "another digest".into());
    assert_eq!(planned(&hub, &wanted), (0, 1, 0), "another change was refused");
    hub.policy.unchangeable.insert("u1".into(), refused(&wanted));
    assert_eq!(planned(&hub, &wanted), (1, 0, 1));
    assert_eq!(hub.plan(&wanted).recreate[0].uid, "u1");
    let disabled = commit(&[job("2", "disabled")]);
    hub.policy.unchangeable.insert("u1".into(), refused(&disabled));
    assert_eq!(planned(&hub, &disabled), (0, 1, 0), "the annotation does not allow it");
}

#[test]
fn a_deletion_that_clusters_lose_an_add_on_with_says_that_it_is_approved() {
    let mut hub = Hub::new();
    let all: Vec<_> = ["a", "b", "c"].map(|name| config_map(name, "1")).to_vec();
    hub.settle(&commit(&all));
    let left = commit(&all[..1]);
    let id = ObjectId::of(&config_map("b", "1").reference());
    hub.policy.uninstalls.insert(id, Uninstall { clusters: 3, ..Uninstall::default() });
    let hold = hub.plan(&left).hold.unwrap();
    assert!(hold.why.contains("uninstalls it from 3 clusters"), "{}", hold.why);
    hub.policy.approved = hold.approval;
    let approved = |hub: &Hub| -> Vec<(String, bool)> {
        let plan = hub.plan(&left);
        let deletions = plan.delete.iter().flatten();
        deletions.map(|deletion| (deletion.target.key.name.clone(), deletion.is_approved)).collect()
    };
    assert_eq!(approved(&hub), [("b".to_owned(), true), ("c".to_owned(), false)]);
    hub.policy.budget = None;
    assert_eq!(approved(&hub), [("b".to_owned(), false), ("c".to_owned(), false)], "nobody was asked");
}

#[test]
fn a_commit_that_waits_for_an_object_of_another_hands_over_and_one_that_is_refused_does_not() {
    let mut hub = Hub::new();
    hub.settle(&commit(&[config_map("goes", "1"), config_map("stays", "1")]));
    let id = |name: &str| ObjectId::of(&config_map(name, "1").reference());
    let other = Key::namespaced("ns", "other");
    hub.requested = BTreeMap::from([(id("goes"), other.clone()), (id("stays"), other.clone())]);
    hub.claimed =
        BTreeMap::from([(id("theirs"), vec![Claimant { repo: other.clone(), is_forbidden: false }])]);
    let waiting = commit(&[config_map("stays", "1"), config_map("theirs", "1")]);
    let plan = hub.plan(&waiting);
    assert_eq!((plan.problems.len(), plan.delete.len(), plan.is_settled()), (1, 0, false));
    let [hand_over] = plan.hand_over.as_slice() else { panic!("{plan:?}") };
    assert_eq!((hand_over.target.key.name.as_str(), &hand_over.to), ("goes", &Some(other)));

    hub.insert(config_map("foreign", "2"));
    let refused = commit(&[config_map("foreign", "1"), config_map("stays", "1"), config_map("theirs", "1")]);
    let plan = hub.plan(&refused);
    assert_eq!((plan.problems.len(), plan.hand_over), (2, Vec::new()));
}
