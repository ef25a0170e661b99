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

fn typed<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// Returns caches with the claim of an agent and one work on the hub.
fn caches(annotations: &Value) -> Caches {
    let claim = json!({
        "metadata": {"name": AGENT_CLAIM, "resourceVersion": "1", "annotations": annotations},
        "spec": {"value": "c1/a/hash"},
    });
    let other = json!({"metadata": {"name": "other", "namespace": "c1", "resourceVersion": "1"}, "spec": {}});
    let mut caches = Caches::default();
    caches.replace::<ClusterClaim>(Site::Spoke, vec![typed(claim)], "1");
    caches.replace::<ManifestWork>(Site::Hub, vec![typed(other)], "1");
    caches
}

fn plan_after_half_an_hour(annotations: &Value) -> Plan {
    let applied = json!({
        "metadata": {"name": "hash-gone", "uid": "u", "resourceVersion": "1"},
        "spec": {"hubHash": "hash", "manifestWorkName": "gone", "agentID": "a"},
        "status": {"evictionStartTime": "2024-05-01T12:00:00Z"},
    });
    let mut caches = caches(annotations);
    caches.replace::<AppliedManifestWork>(Site::Spoke, vec![typed(applied)], "1");
    let now = "2024-05-01T12:30:00Z".parse().unwrap();
    OrphanController::plan(&Key::cluster("hash-gone"), &caches, now).unwrap()
}

#[test]
fn what_an_agent_with_another_id_left_of_this_hub_is_adopted_and_that_of_another_hub_is_not() {
    let plan_of = |agent: &str, hub: &str| {
        let mut caches = caches(&json!({}));
        let applied = json!({
            "metadata": {"name": format!("{hub}-gone"), "uid": "u", "resourceVersion": "1"},
            "spec": {"hubHash": hub, "manifestWorkName": "gone", "agentID": agent},
        });
        caches.replace::<AppliedManifestWork>(Site::Spoke, vec![typed(applied)], "1");
        let key = Key::cluster(format!("{hub}-gone"));
        let steps = OrphanController::plan(&key, &caches, Timestamp::UNIX_EPOCH).unwrap().steps.concat();
        steps
            .into_iter()
            .map(|action| match action {
                Action::Patch { patch, .. } => json!(patch),
                other => panic!("{other:?}"),
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(plan_of("klusterlet", "hash"), [json!({"spec": {"agentID": "a"}})]);
    assert_eq!(plan_of("klusterlet", "other"), [json!({}); 0]);
    let marked = [json!({"status": {"evictionStartTime": "1970-01-01T00:00:00Z"}})];
    assert_eq!(plan_of("a", "hash"), marked);
    assert_eq!(plan_of("a", "other"), marked, "its own, of a hub that it has left");
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
