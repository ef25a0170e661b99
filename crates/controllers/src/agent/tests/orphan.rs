use serde_json::{Value, json};

use super::*;
use api::names::EVICTION_ANNOTATION;
use reconcile::Caches;

/// Returns what happens to a work that is missing for half an hour: deletions, and the time of the next look.
fn after_half_an_hour(annotations: &Value) -> (usize, Option<Timestamp>) {
    let plan = plan_after_half_an_hour(annotations);
    let deletions = plan.steps.iter().flatten().filter(|action| matches!(action, Action::Delete { .. }));
    (deletions.count(), plan.wake_at)
}

fn plan_after_half_an_hour(annotations: &Value) -> Plan {
    let typed = |value: Value| serde_json::from_value(value).unwrap();
    let claim: ClusterClaim = serde_json::from_value(json!({
        "metadata": {"name": AGENT_CLAIM, "resourceVersion": "1", "annotations": annotations},
        "spec": {"value": "c1/a/hash"},
    }))
    .unwrap();
    let applied: AppliedManifestWork = serde_json::from_value(json!({
        "metadata": {"name": "hash-gone", "uid": "u", "resourceVersion": "1"},
        "spec": {"hubHash": "hash", "manifestWorkName": "gone", "agentID": "a"},
        "status": {"evictionStartTime": "2024-05-01T12:00:00Z"},
    }))
    .unwrap();
    let other = json!({"metadata": {"name": "other", "namespace": "c1", "resourceVersion": "1"}, "spec": {}});
    let mut caches = Caches::default();
    caches.replace::<ClusterClaim>(Site::Spoke, vec![claim], "1");
    caches.replace::<AppliedManifestWork>(Site::Spoke, vec![applied], "1");
    caches.replace::<ManifestWork>(Site::Hub, vec![typed(other)], "1");
    let now = "2024-05-01T12:30:00Z".parse().unwrap();
    OrphanController::plan(&Key::cluster("hash-gone"), &caches, now).unwrap()
}

#[test]
fn a_grace_period_of_a_hundred_years_deletes_nothing_and_removes_the_mark() {
    let plan = plan_after_half_an_hour(&json!({EVICTION_ANNOTATION: "876000h"}));
    let [Action::Patch { patch, .. }] = &plan.steps.concat()[..] else { panic!("{plan:?}") };
    assert_eq!(json!(patch), json!({"status": {"evictionStartTime": null}}));
    assert_eq!(plan.wake_at, None);
}

#[test]
fn a_work_that_the_hub_lost_goes_after_an_hour_or_the_grace_period_of_the_agent() {
    let at = |time: &str| Some(time.parse::<Timestamp>().unwrap());
    assert_eq!(after_half_an_hour(&json!({})), (0, at("2024-05-01T13:00:00Z")));
    assert_eq!(after_half_an_hour(&json!({EVICTION_ANNOTATION: "2h"})), (0, at("2024-05-01T14:00:00Z")));
    assert_eq!(after_half_an_hour(&json!({EVICTION_ANNOTATION: "10m"})), (1, None));
    assert_eq!(after_half_an_hour(&json!({EVICTION_ANNOTATION: "?"})), (0, at("2024-05-01T13:00:00Z")));
    assert_eq!(after_half_an_hour(&json!({EVICTION_ANNOTATION: "875999h"})).0, 0);
}
