use serde_json::json;

use super::hub::{Hub, commit, config_map, object};
use crate::sync::{ApplyRule, Claimant, ObjectId, SyncPlan};
use api::names;
use object::{Key, Object};

fn waiting() -> Hub {
    let mut hub = Hub::new();
    hub.policy.waits_for_health = true;
    hub
}

fn deployment() -> Object {
    object(
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "ns"}, "spec": {"replicas": 1}}),
    )
}

fn add_on() -> Object {
    object(
        json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn", "metadata": {"name": "m"}}),
    )
}

fn config_repo(name: &str) -> Object {
    object(
        json!({"apiVersion": "gitops.wheelwright.dev/v1alpha1", "kind": "ConfigRepo", "metadata": {"name": name, "namespace": "ns"},
        "spec": {"url": "https://git.example/a"}}),
    )
}

/// Returns the kinds that a plan applies, by stage.
fn applied(plan: &SyncPlan<'_>) -> Vec<Vec<String>> {
    let kinds = |stage: &Vec<crate::sync::Apply<'_>>| {
        stage.iter().map(|apply| apply.desired.reference.gvk.kind.clone()).collect()
    };
    plan.apply.iter().map(kinds).collect()
}

#[test]
fn a_stage_that_is_not_healthy_holds_those_after_it() {
    let mut hub = waiting();
    let wanted = commit(&[config_map("a", "1"), deployment(), add_on()]);
    let plan = hub.plan(&wanted);
    assert_eq!(applied(&plan), [["ConfigMap"], ["Deployment"]]);
    assert!(plan.is_held && plan.takes_time);
    hub.execute(&plan, usize::MAX);

    let plan = hub.plan(&wanted);
    assert!(plan.is_held && plan.apply.is_empty(), "{plan:?}");
    assert_eq!(plan.unhealthy.len(), 1);
    let status =
        json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1});
    hub.edit("d", |live| {
        live.metadata_mut().insert("generation".into(), json!(1));
        live.0.insert("status".into(), status);
    });
    let plan = hub.plan(&wanted);
    assert_eq!((applied(&plan), plan.is_held), (vec![vec!["ClusterManagementAddOn".to_owned()]], false));
}

#[test]
fn the_last_stage_holds_nothing() {
    let plan = waiting().plan(&commit(&[config_map("a", "1"), deployment()])).is_held;
    assert!(!plan);
}

#[test]
fn a_stage_waits_for_every_config_repo_but_the_one_that_applies_it() {
    let (own, other) = (commit(&[config_repo("repo"), add_on()]), commit(&[config_repo("base"), add_on()]));
    let hub = waiting();
    assert!(!hub.plan(&own).takes_time && !hub.plan(&own).is_held);
    assert!(hub.plan(&other).takes_time && hub.plan(&other).is_held);
    let plain = commit(&[config_map("a", "1"), add_on()]);
    assert!(!hub.plan(&plain).takes_time, "a kind without a controller");
}

#[test]
fn an_annotation_says_when_an_object_is_applied() {
    let annotated = |rule: &str| {
        let mut object = config_map("a", "1");
        object.metadata_mut().insert("annotations".into(), json!({names::APPLY_ANNOTATION: rule}));
        object
    };
    for (rule, expected) in [
        ("Always", ApplyRule::Always),
        ("Merge", ApplyRule::Merge),
        ("IfNotPresent", ApplyRule::IfNotPresent),
        ("Ignore", ApplyRule::Ignore),
    ] {
        assert_eq!(commit(&[annotated(rule)]).objects[0].apply, expected);
    }
    let hub = Hub::new();
    assert!(hub.plan(&commit(&[annotated("Ignore")])).inventory.is_empty());
    assert_eq!(hub.plan(&commit(&[annotated("IfNotPresent")])).inventory.len(), 1);
}

#[test]
fn deletions_wait_while_another_repository_may_request_the_object() {
    let mut hub = Hub::new();
    hub.settle(&commit(&[config_map("a", "1"), config_map("b", "1")]));
    let wanted = commit(&[config_map("a", "1")]);
    hub.awaits_requests = true;
    let plan = hub.plan(&wanted);
    assert_eq!((plan.delete.len(), plan.awaiting_requests), (0, 1));
    hub.awaits_requests = false;
    assert_eq!(hub.plan(&wanted).delete.len(), 1);

    let id = ObjectId::of(&config_map("b", "1").reference());
    hub.requested.insert(id, Key::namespaced("ns", "other"));
    let plan = hub.plan(&wanted);
    assert!(plan.delete.is_empty());
    assert_eq!(plan.hand_over[0].to, Some(Key::namespaced("ns", "other")));
}

#[test]
fn only_objects_that_another_repository_owns_are_requested() {
    let mut hub = Hub::new();
    hub.insert(config_map("theirs", "2"));
    let id = ObjectId::of(&config_map("claimed", "1").reference());
    let claimant = Claimant { repo: Key::namespaced("ns", "other"), is_forbidden: false };
    hub.claimed.insert(id.clone(), vec![claimant]);
    let wanted = commit(&[config_map("claimed", "1"), config_map("theirs", "1")]);
    let plan = hub.plan(&wanted);
    assert_eq!(plan.problems.len(), 2);
    assert_eq!(plan.requests.into_iter().collect::<Vec<_>>(), [(id, "v1".to_owned())]);
}
